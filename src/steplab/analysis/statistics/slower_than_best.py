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

from steplab.analysis.statistics.intervals import Interval
from steplab.analysis.statistics.variances import joint_freedom

Array = NDArray[np.float64]
LEVEL = 0.95


def surely_slower(throughputs: Sequence[float], intervals: Sequence[Interval], level: float = LEVEL) -> list[bool]:
    """Whether each configuration has surely not the highest throughput; `intervals` are those of the step times.

    A configuration with a single trial is never surely slower: its iterations say nothing about another process.

    >>> sure = Interval(1.0, 0.99, 1.01, 5, "moderated", error=0.005, freedom=20.0)
    >>> surely_slower([100.0, 50.0, 99.0], [sure] * 3)
    [False, True, False]
    """
    if len(intervals) < 2:
        return [False] * len(intervals)
    speed = np.log(np.asarray(throughputs, dtype=float))
    error = np.array([np.inf if interval.error is None else interval.error for interval in intervals])
    freedom = np.array([1.0 if interval.freedom is None else interval.freedom for interval in intervals])
    pool = float(sum(interval.n - 1 for interval in intervals))
    best = int(np.argmax(speed))
    squares = np.stack([error**2, np.full_like(error, error[best] ** 2)], axis=-1)
    joint = joint_freedom(squares, np.stack([freedom, np.full_like(freedom, freedom[best])], axis=-1), pool)
    difference = speed[best] - speed
    # Times without any noise (a virtual clock) differ or do not; a difference in the last digits is none.
    sure = (difference > _critical(joint, len(speed), level) * np.sqrt(squares.sum(axis=-1))) & (difference > 1e-9)
    return [bool(slower) for slower in sure]


def _critical(freedom: Array, configurations: int, level: float) -> Array:
    """How many standard errors either way, so that all pairs hold together."""
    from scipy.special import stdtrit

    pairs = configurations * (configurations - 1) / 2
    return np.asarray(stdtrit(freedom, (1.0 + level ** (1.0 / pairs)) / 2))
