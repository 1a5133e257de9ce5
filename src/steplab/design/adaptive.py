"""Adaptive: the configurations from which trials are chosen batch after batch, by what was measured before.

What is chosen next is decided above (`planning/adaptive`), where models are known; here is what there is to choose
from. All combinations of levels, or where there are ranges or too many combinations, a latin hypercube of them.
"""

from __future__ import annotations

import math

import numpy as np

from steplab.core.errors import StudyError
from steplab.design.configurations import Configurations, grid
from steplab.design.possible import Possible
from steplab.design.sampling import collect
from steplab.study.sections import Study

MOST = 2048  # configurations to choose from
MOST_TO_COMPARE = 50  # each with each


def configurations(study: Study, rng: np.random.Generator, possible: Possible) -> Configurations:
    """The possible configurations to choose from."""
    levels = {name: factor for name, factor in study.factors.items() if isinstance(factor, tuple)}
    if len(levels) == len(study.factors) and math.prod(map(len, levels.values())) <= MOST:
        every = grid(levels)
        drawn = every.take(possible(every))
    else:
        drawn = _drawn(study, rng, possible)
    if study.design.aim == "compare" and not 2 <= len(drawn) <= MOST_TO_COMPARE:
        what = f"aim 'compare' has {len(drawn)} configurations to compare with each other"
        raise StudyError(what, where=f"{study.path}, factors", hint=f"allowed: 2 to {MOST_TO_COMPARE}, as levels")
    return drawn


def _drawn(study: Study, rng: np.random.Generator, possible: Possible) -> Configurations:
    from scipy.stats import qmc

    sampler = qmc.LatinHypercube(d=len(study.factors), rng=rng)
    return collect(study, lambda: sampler.random(MOST), possible, MOST)
