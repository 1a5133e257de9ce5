"""What the drawing designs share: a point of the unit cube as levels, and drawing until there are enough."""

from __future__ import annotations

import math
from collections.abc import Callable

from steplab.core.study import Factor
from steplab.core.trial import Level, trial_id

_FRUITLESS = 50  # batches without a new configuration after which the space counts as exhausted


def level_at(factor: Factor, u: float) -> Level:
    """The level at a position between 0 and 1 of a factor.

    >>> level_at((32, 64, 128), 0.5)
    64
    """
    if isinstance(factor, tuple):
        return factor[min(int(u * len(factor)), len(factor) - 1)]
    span = 1 if factor.integer else 0
    if factor.scale == "log":
        value = math.exp(math.log(factor.low) + u * (math.log(factor.high + span) - math.log(factor.low)))
    else:
        value = factor.low + u * (factor.high + span - factor.low)
    return min(int(value), int(factor.high)) if factor.integer else float(value)


def collect(
    batch: Callable[[], list[dict[str, Level]]], possible: Callable[[dict[str, Level]], bool], n: int
) -> list[dict[str, Level]]:
    """Batches of drawn configurations until n different possible ones are there, or no new ones come."""
    found: dict[str, dict[str, Level]] = {}
    fruitless = 0
    while len(found) < n and fruitless < _FRUITLESS:
        before = len(found)
        for config in batch():
            if len(found) < n and (key := trial_id(config, 0)) not in found and possible(config):
                found[key] = config
        fruitless = fruitless + 1 if len(found) == before else 0
    return list(found.values())
