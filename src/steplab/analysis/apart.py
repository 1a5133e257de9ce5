"""Which configurations are surely slower than the best one, all of them judged at once.

Among many equal configurations one is the fastest by luck, and the slowest differs from it more than any fixed pair
would. So the bound holds for all pairs together, as Tukey's does (Hsu, Multiple Comparisons, 1996, §5.1), here with
Šidák's critical value, which unequal errors allow. Intervals that do not overlap are not enough: with twelve equal
configurations of three replicates they called one slower in every fifth study.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.intervals import Interval

Array = NDArray[np.float64]
LEVEL = 0.95


def surely_slower(throughputs: Sequence[float], intervals: Sequence[Interval], level: float = LEVEL) -> list[bool]:
    """Whether each configuration has surely not the highest throughput; `intervals` are those of the step times.

    A configuration with a single trial is never surely slower: its iterations say nothing about another process.

    >>> sure = Interval(1.0, 0.99, 1.01, 5, "pooled-bootstrap")
    >>> surely_slower([100.0, 50.0, 99.0], [sure] * 3)
    [False, True, False]
    """
    if len(intervals) < 2:
        return [False] * len(intervals)
    speed = np.log(np.asarray(throughputs, dtype=float))
    error, freedom = _errors(intervals, level)
    best = int(np.argmax(speed))
    difference = speed[best] - speed
    together = np.hypot(error, error[best])
    limit = _critical(_joint_freedom(error, float(error[best]), freedom, float(freedom[best])), len(speed), level)
    # Times without any noise (a virtual clock) differ or do not; a difference in the last digits is none.
    sure = (difference > limit * together) & (difference > 1e-9)
    return [bool(one) for one in sure]


def _errors(intervals: Sequence[Interval], level: float) -> tuple[Array, Array]:
    """Standard error of each log median, and its degrees of freedom; infinite for a single trial."""
    from scipy.stats import norm, t

    n = np.array([one.n for one in intervals], dtype=float)
    alone = np.array([one.method == "t" for one in intervals])
    width = np.array([np.log(one.high / one.low) / 2 if one.n > 1 else np.inf for one in intervals])
    pooled = float((n[~alone] - 1).sum())
    freedom = np.where(alone, np.maximum(n - 1, 1), max(pooled, 1.0))
    quantile = np.where(alone, t.ppf((1 + level) / 2, freedom), norm.ppf((1 + level) / 2))
    return width / quantile, freedom


def _joint_freedom(first: Array, second: float, first_freedom: Array, second_freedom: float) -> Array:
    """Degrees of freedom of a difference (Welch and Satterthwaite)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        joint = (first**2 + second**2) ** 2 / (first**4 / first_freedom + second**4 / second_freedom)
    return np.where(np.isfinite(joint), np.maximum(joint, 1.0), np.maximum(first_freedom, second_freedom))


def _critical(freedom: Array, configurations: int, level: float) -> Array:
    """How many standard errors either way, so that all pairs hold together."""
    from scipy.stats import t

    pairs = configurations * (configurations - 1) / 2
    return np.asarray(t.ppf((1.0 + level ** (1.0 / pairs)) / 2, freedom))
