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

from steplab.analysis.statistics.differences import LEVEL, ROUNDING, critical
from steplab.analysis.statistics.intervals import Interval
from steplab.analysis.statistics.variances import joint_freedom

Array = NDArray[np.float64]


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
    best = int(np.argmax(speed))
    apart = speed[best] - speed
    # Times without any noise (a virtual clock) differ or do not; a difference in the last digits is none.
    sure = (apart > halves(intervals, best, level)) & (apart > ROUNDING)
    return [bool(slower) for slower in sure]


def halves(intervals: Sequence[Interval], at: int, level: float = LEVEL) -> Array:
    """By which log ratio each configuration must differ from one of them; infinite where one has a single trial."""
    error = np.array([np.inf if interval.error is None else interval.error for interval in intervals])
    freedom = np.array([1.0 if interval.freedom is None else interval.freedom for interval in intervals])
    pool = float(sum(interval.n - 1 for interval in intervals))
    squares = np.stack([error**2, np.full_like(error, error[at] ** 2)], axis=-1)
    joint = joint_freedom(squares, np.stack([freedom, np.full_like(freedom, freedom[at])], axis=-1), pool)
    pairs = len(intervals) * (len(intervals) - 1) / 2
    return np.asarray(critical(joint, pairs, level) * np.sqrt(squares.sum(axis=-1)))
