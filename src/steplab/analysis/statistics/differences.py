"""The rule for "differs", which every verdict of an answer comes from.

Questions of one kind are a family (two single configurations, effects of factors, frameworks, speed-ups). Their
intervals hold all at once with 95 % confidence, and **a difference is real exactly if the interval beside it leaves 1
out**. Nothing else calls two things different: no second test, no interval of another level beside the verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LEVEL = 0.95
WIDEST = 100.0  # of a logarithm: a wider interval says as little, and its ends are still numbers
ROUNDING = 1e-9  # a smaller logarithm is arithmetic, also where there is no noise (a virtual clock)


@dataclass(frozen=True)
class Difference:
    """A ratio with the interval that decides about it; no interval and no verdict where nothing tells the noise."""

    ratio: float
    low: float | None
    high: float | None
    differs: bool


def difference(log: float, half: float | None) -> Difference:
    """The verdict on a log ratio whose interval has this half width.

    >>> difference(0.2, 0.1).differs, difference(0.2, 0.3).differs, difference(0.2, None).differs
    (True, False, False)
    """
    if half is None or not math.isfinite(half):
        return Difference(_exp(log), None, None, False)
    half = min(half, WIDEST)
    return Difference(_exp(log), _exp(log - half), _exp(log + half), abs(log) > max(half, ROUNDING))


def including(log: float, centre: float, half: float | None) -> Difference:
    """The verdict on a log ratio whose error is that of another estimate: the interval is widened to hold both.

    A table shows the ratio of medians, and noise that replicates share is taken out of paired ratios. Where the two
    estimates contradict each other, nothing is real.
    """
    return difference(log, None if half is None else half + abs(log - centre))


def critical(freedom: Array | float, questions: float, level: float = LEVEL) -> Array:
    """How many standard errors either way hold the answers to all questions at once, by Šidák's bound.

    >>> [round(float(critical(10.0, many)), 2) for many in (1, 6)]
    [2.23, 3.26]
    """
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, (1.0 + level ** (1.0 / max(questions, 1.0))) / 2))


def _exp(value: float) -> float:
    return math.exp(max(-2 * WIDEST, min(value, 2 * WIDEST)))
