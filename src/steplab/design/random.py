"""Random: n configurations drawn independently and uniformly, repeated ones drawn again."""

from __future__ import annotations

import numpy as np

from steplab.design.configurations import Configurations
from steplab.design.possible import Possible
from steplab.design.sampling import collect
from steplab.study.sections import Study


def configurations(study: Study, rng: np.random.Generator, possible: Possible) -> Configurations:
    """Up to n different possible configurations."""
    return collect(study, lambda: rng.random((study.design.n or 1, len(study.factors))), possible)
