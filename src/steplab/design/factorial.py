"""Full factorial: every combination of the levels."""

from __future__ import annotations

import math

import numpy as np

from steplab.core.errors import StudyError
from steplab.design.configurations import Configurations, grid
from steplab.design.possible import Possible
from steplab.study.sections import Study

MOST = 1_000_000


def configurations(study: Study, rng: np.random.Generator, possible: Possible) -> Configurations:
    """All combinations; none is drawn, so none is left out for being impossible."""
    levels = {name: factor for name, factor in study.factors.items() if isinstance(factor, tuple)}
    combinations = math.prod(map(len, levels.values()))
    if combinations > MOST:
        what = f"the factorial has {combinations:,} combinations"
        raise StudyError(what, where=f"{study.path}, factors", hint=f"allowed: up to {MOST:,}; or draw some at random")
    return grid(levels)
