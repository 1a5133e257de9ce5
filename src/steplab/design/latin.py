"""Latin hypercube: n configurations in which every factor's range is covered evenly."""

from __future__ import annotations

import numpy as np

from steplab.design.configurations import Configurations
from steplab.design.possible import Possible
from steplab.design.sampling import collect
from steplab.study.sections import Study


def configurations(study: Study, rng: np.random.Generator, possible: Possible) -> Configurations:
    """Up to n different possible configurations; impossible ones are replaced from further hypercubes."""
    from scipy.stats import qmc

    sampler = qmc.LatinHypercube(d=len(study.factors), rng=rng)
    return collect(study, lambda: sampler.random(study.design.n or 1), possible)
