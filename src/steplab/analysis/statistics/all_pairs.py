"""By how much two configurations must differ, all of them judged at once.

Among many equal configurations one is the fastest by luck, and the slowest differs from it more than any fixed pair
would. So the bound holds for all pairs together, as Tukey's does (Hsu, Multiple Comparisons, 1996, §5.1), here with
Šidák's critical value, which unequal errors allow. Intervals that do not overlap are not enough: with twelve equal
configurations of three replicates they called one slower in every fifth study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.statistics.differences import ROUNDING, critical
from steplab.analysis.statistics.intervals import Interval
from steplab.analysis.statistics.variances import joint_freedom

Array = NDArray[np.float64]
Positions = NDArray[np.int64]


@dataclass(frozen=True)
class AllPairs:
    """The errors of the log times of configurations; infinite where a single trial says nothing about another."""

    error: Array
    freedom: Array
    pool: float  # degrees of freedom of all replicates

    @staticmethod
    def of(intervals: Sequence[Interval]) -> AllPairs:
        """From the intervals of the step times."""
        error = np.array([np.inf if interval.error is None else interval.error for interval in intervals])
        freedom = np.array([1.0 if interval.freedom is None else interval.freedom for interval in intervals])
        return AllPairs(error, freedom, float(sum(interval.n - 1 for interval in intervals)))

    def halves(self, at: int, others: Positions | slice = slice(None), questions: float = 0) -> Array:
        """By which log ratio others must differ from one of them to be told from it.

        `questions` are the pairs that are judged at once where those of others belong to them.
        """
        errors, freedom = self.error[others], self.freedom[others]
        squares = np.stack([errors**2, np.full_like(errors, self.error[at] ** 2)], axis=-1)
        known = np.stack([freedom, np.full_like(freedom, self.freedom[at])], axis=-1)
        pairs = max(questions, len(self.error) * (len(self.error) - 1) / 2)
        return np.asarray(critical(joint_freedom(squares, known, self.pool), pairs) * np.sqrt(squares.sum(axis=-1)))


def surely_longer(times: Sequence[Interval], questions: float = 0) -> list[bool]:
    """Whether each time is surely not the shortest of all; a single trial is told from nothing.

    `questions` are all pairs that are judged at once, if there are others.

    >>> short, long = (Interval(t, 0.99 * t, 1.01 * t, 5, "moderated", error=0.005, freedom=20.0) for t in (1.0, 2.0))
    >>> surely_longer([long, short, short])
    [True, False, False]
    """
    if len(times) < 2:
        return [False] * len(times)
    logs = np.log([interval.median for interval in times])
    shortest = int(np.argmin(logs))
    halves = np.maximum(AllPairs.of(times).halves(shortest, questions=questions), ROUNDING)
    return [bool(sure) for sure in logs - logs[shortest] > halves]
