"""Random: n configurations drawn independently and uniformly, repeated ones drawn again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steplab.core.study import Study
from steplab.core.trial import Level
from steplab.design.draw import collect, level_at


def configurations(
    study: Study, rng: np.random.Generator, possible: Callable[[dict[str, Level]], bool]
) -> list[dict[str, Level]]:
    """Up to n different possible configurations."""

    def batch() -> list[dict[str, Level]]:
        points = rng.random((study.design.n or 1, len(study.factors)))
        return [_at(study, point) for point in points]

    return collect(batch, possible, study.design.n or 1)


def _at(study: Study, point: np.ndarray) -> dict[str, Level]:
    return {name: level_at(factor, u) for (name, factor), u in zip(study.factors.items(), point, strict=True)}
