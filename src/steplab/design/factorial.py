"""Full factorial: every combination of the levels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from steplab.core.errors import StudyError
from steplab.core.study import Study
from steplab.core.trial import Level

MOST = 1_000_000


def configurations(
    study: Study, rng: np.random.Generator, possible: Callable[[dict[str, Level]], bool]
) -> list[dict[str, Level]]:
    """All combinations; none is drawn, so none is left out for being impossible."""
    levels = [factor for factor in study.factors.values() if isinstance(factor, tuple)]
    combinations = math.prod(map(len, levels))
    if combinations > MOST:
        what = f"the factorial has {combinations:,} combinations"
        raise StudyError(what, where=f"{study.path}, factors", hint=f"allowed: up to {MOST:,}; or draw some at random")
    return [dict(zip(study.factors, combination, strict=True)) for combination in itertools.product(*levels)]
