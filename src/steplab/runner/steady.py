"""When a trial is warm and when it has been measured long enough: pure decisions on times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steplab.core.steadiness import median_error
from steplab.core.study import Measure
from steplab.core.warm_up import BLOCK, CAP, is_steady
from steplab.runner.lines import Document

PHASED_WARMUP = 2
OVERLAP_ITERATIONS = 20  # of mode `overlap` at most: it explains the step, it does not measure its time


def is_precise(times: NDArray[np.float64], precision: float) -> bool:
    """Whether the 95 % interval of the median is within ± that share of it, autocorrelation taken into account."""
    return median_error(times) <= precision


@dataclass
class Director:
    """Tells the ranks of one trial how many iterations to run next."""

    measure: Measure
    accumulate: int
    mode: str = ""
    warm: bool = False
    times: list[float] = field(default_factory=list)
    renew_s: float = 0.0  # the trial has one deadline, whatever it says meanwhile

    def answers(self, said: Mapping[int, Document]) -> dict[int, Document]:
        """What each rank is told after all have sent a block."""
        times = [said[rank]["t_iter"] for rank in sorted(said)]
        iterations, warmup, last = self.next(said[0]["mode"], times)
        return {rank: {"iterations": iterations, "warmup": warmup, "last": last} for rank in said}

    def next(self, mode: str, block: Sequence[Sequence[float]]) -> tuple[int, bool, bool]:
        """After a block of times per rank: how many iterations next, whether they are warm-up, and the last ones.

        No iterations, or the last ones, end the mode.
        """
        if mode != self.mode:
            self.mode, self.warm, self.times = mode, False, []
        if len(block[0]):
            self.times += np.max(np.asarray(block, dtype=float), axis=0).tolist()
        if not self.warm:
            wanted = self._warmup_left()
            if wanted:
                return self._whole(wanted), True, False
            self.warm, self.times = True, []
        last = self.measure.precision is None or self.mode == "overlap"
        return self._whole(self._measured_left()), False, last

    def _warmup_left(self) -> int:
        if self.mode != "native":
            return PHASED_WARMUP if not self.times else 0
        if self.measure.warmup != "auto":
            return self.measure.warmup if not self.times else 0
        cycles = self._cycles(self.times)
        return 0 if is_steady(cycles) or len(cycles) >= CAP else BLOCK * self.accumulate

    def _measured_left(self) -> int:
        have, wanted = len(self.times), self.measure.iterations
        if self.mode == "overlap":
            return min(wanted, OVERLAP_ITERATIONS)
        if have < wanted:
            return wanted - have
        precision = self.measure.precision
        if precision is None or have >= self.measure.max_iterations:
            return 0
        if is_precise(np.asarray(self._cycles(self.times)), precision):
            return 0
        return min(have, self.measure.max_iterations - have)

    def _cycles(self, times: Sequence[float]) -> list[float]:
        """Mean iteration time of each accumulation: single iterations differ by design there."""
        whole = len(times) // self.accumulate * self.accumulate
        means: list[float] = np.asarray(times[:whole]).reshape(-1, self.accumulate).mean(axis=1).tolist()
        return means

    def _whole(self, iterations: int) -> int:
        """Rounded up to whole accumulations."""
        return -(-iterations // self.accumulate) * self.accumulate
