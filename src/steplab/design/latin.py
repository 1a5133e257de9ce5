"""Latin hypercube: n configurations in which every factor's range is covered evenly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steplab.core.study import Study
from steplab.core.trial import Level
from steplab.design.draw import collect, level_at


def configurations(
    study: Study, rng: np.random.Generator, possible: Callable[[dict[str, Level]], bool]
) -> list[dict[str, Level]]:
    """Up to n different possible configurations; impossible ones are replaced from further hypercubes."""
    from scipy.stats import qmc

    sampler = qmc.LatinHypercube(d=len(study.factors), rng=rng)

    def batch() -> list[dict[str, Level]]:
        points = sampler.random(study.design.n or 1)
        return [{name: level_at(f, u) for (name, f), u in zip(study.factors.items(), p, strict=True)} for p in points]

    return collect(batch, possible, study.design.n or 1)
