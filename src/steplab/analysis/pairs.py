"""Two single configurations: one verdict for each pair, whoever asks.

A pair that belongs to a more specific family (a speed-up, the same configuration in two frameworks) has the verdict of
that family; any other is judged among all pairs of the study, because the fastest of many is so by luck as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.configurations import Configurations
from steplab.analysis.statistics.all_pairs import AllPairs
from steplab.analysis.statistics.differences import Difference, difference
from steplab.analysis.summary import Group, Ratio

Array = NDArray[np.float64]
CALMEST = 200  # configurations among which the smallest visible difference is looked for


@dataclass(frozen=True)
class Pairs:
    """The verdicts on throughputs; `specific` are those of families of their own, by positions."""

    groups: Sequence[Group]
    specific: Mapping[tuple[int, int], Difference]

    def between(self, first: int, second: int) -> Difference:
        """How the throughput of one configuration compares with that of another."""
        if (first, second) in self.specific:
            return self.specific[first, second]
        if (second, first) in self.specific:
            return inverse(self.specific[second, first])
        return self._judged(first, second, self.groups[first].rate / self.groups[second].rate)

    def _judged(self, first: int, second: int, ratio: float) -> Difference:
        """The verdict on a ratio that is as unsure as that of the two step times."""
        return difference(float(np.log(ratio)), float(self._halves(first)[second]))

    def equal_to_best(self) -> list[int]:
        """The configuration with the highest throughput, then those that cannot be told from it.

        Where nobody says what a step does, it is the one with the shortest step.
        """
        if not self.groups:
            return []
        order = sorted(range(len(self.groups)), key=lambda at: -self.groups[at].speed)
        return [at for at in order if at == order[0] or not self._ranked(order[0], at).differs]

    def _ranked(self, best: int, at: int) -> Difference:
        """How what configurations are ranked by compares: throughputs, or step times where work is only assumed."""
        fastest, other = self.groups[best], self.groups[at]
        ratio = fastest.speed / other.speed
        alike = math.isclose(ratio, fastest.rate / other.rate)  # the same work, or work that is known
        return self.between(best, at) if alike else self._judged(best, at, ratio)

    @cached_property
    def visible(self) -> tuple[float, float] | None:
        """The smallest log ratio that makes two configurations differ, and a typical one; None without replicates."""
        known = [at for at, group in enumerate(self.groups) if group.t_iter.error is not None]
        if len(known) < 2:
            return None
        calm = np.array(sorted(known, key=lambda at: self._all.error[at])[:CALMEST], dtype=np.int64)
        rows = np.array([np.delete(self._all.halves(at, calm), place) for place, at in enumerate(calm.tolist())])
        own = [_half(difference) for difference in self.specific.values() if difference.low is not None]
        return min(float(rows.min()), *own, float(np.median(rows))), float(np.median(rows))

    @cached_property
    def _all(self) -> AllPairs:
        return AllPairs.of([group.t_iter for group in self.groups])

    def _halves(self, at: int) -> Array:
        if at not in self._known:
            self._known[at] = self._all.halves(at)
        return self._known[at]

    @cached_property
    def _known(self) -> dict[int, Array]:
        return {}


def _half(difference: Difference) -> float:
    """How far from 1 the ratio had to be."""
    assert difference.low is not None and difference.high is not None
    return float(np.log(difference.high / difference.low)) / 2


def inverse(difference: Difference) -> Difference:
    """The same seen from the other side.

    >>> inverse(Difference(2.0, 1.6, 2.5, True))
    Difference(ratio=0.5, low=0.4, high=0.625, differs=True)
    """
    low, high = (None if end is None else 1 / end for end in (difference.high, difference.low))
    return Difference(1 / difference.ratio, low, high, difference.differs)


def speedups(cells: Configurations, groups: Sequence[Group]) -> dict[tuple[int, int], Difference]:
    """The pairs of several workers and one of the same series, with the intervals of their speed-ups."""
    alone = {own: at for at, own in enumerate(cells.series.tolist()) if cells.workers[at] == 1}
    verdicts: dict[tuple[int, int], Difference] = {}
    for at, (group, own) in enumerate(zip(groups, cells.series.tolist(), strict=True)):
        if group.speedup is not None and cells.workers[at] > 1:
            verdicts[at, alone[own]] = verdict_of(group.speedup)
    return verdicts


def verdict_of(ratio: Ratio) -> Difference:
    """A ratio with its verdict."""
    if ratio.low is None or ratio.high is None:
        return difference(float(np.log(ratio.value)), None)
    return difference(float(np.log(ratio.value)), float(np.log(ratio.high / ratio.low)) / 2)
