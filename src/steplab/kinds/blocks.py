"""Directs blocks of iterations: when a trial is warm and when it has been measured long enough; pure decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steplab.core.measurement import Measure
from steplab.core.steadiness import median_error
from steplab.core.step_time import step_times
from steplab.core.warm_up import BLOCK, CAP, is_steady
from steplab.kinds.director import Findings
from steplab_worker.channel import Document

PHASED_WARMUP = 2
NOTHING = np.empty((0, 0))
OVERLAP_ITERATIONS = 20  # of mode `overlap` at most: it explains the step, it does not measure its time


def is_precise(times: NDArray[np.float64], precision: float) -> bool:
    """Whether the 95 % interval of the median, the one in the tables, is within ± that share of it."""
    return median_error(times) <= precision


@dataclass
class BlockDirector:
    """Tells the ranks of one trial how many iterations to run next."""

    measure: Measure
    accumulate: int
    shared: bool = True  # whether the ranks step together
    mode: str = ""
    warm: bool = False
    ranks: NDArray[np.float64] = field(default_factory=lambda: NOTHING)  # the times so far, ranks × iterations
    renew_s: float = 0.0  # the trial has one deadline, whatever it says meanwhile

    def answers(self, said: Mapping[int, Document]) -> dict[int, Document]:
        """What each rank is told after all have sent a block."""
        times = [said[rank]["t_iter"] for rank in sorted(said)]
        iterations, warmup, last = self.next(said[0]["mode"], times)
        return {rank: {"iterations": iterations, "warmup": warmup, "last": last} for rank in said}

    def findings(self) -> Findings:
        """Nothing beside the times."""
        return Findings()

    def next(self, mode: str, block: Sequence[Sequence[float]]) -> tuple[int, bool, bool]:
        """After a block of times per rank: how many iterations next, whether they are warm-up, and the last ones.

        No iterations, or the last ones, end the mode.
        """
        if mode != self.mode:
            self.mode, self.warm, self.ranks = mode, False, NOTHING
        if len(block[0]):
            self.ranks = np.hstack([self.ranks, block]) if self.ranks.size else np.asarray(block, dtype=float)
        if not self.warm:
            wanted = self._warmup_left()
            if wanted:
                return self._whole(wanted), True, False
            self.warm, self.ranks = True, NOTHING
        last = self.measure.precision is None or self.mode == "overlap"
        return self._whole(self._measured_left()), False, last

    def _warmup_left(self) -> int:
        if self.mode != "native":
            return PHASED_WARMUP if not self.ranks.size else 0
        if self.measure.warmup != "auto":
            return self.measure.warmup if not self.ranks.size else 0
        cycles = self._cycles()
        return 0 if is_steady(cycles.tolist()) or len(cycles) >= CAP else BLOCK * self.accumulate

    def _measured_left(self) -> int:
        have, wanted = int(self.ranks.shape[1]), self.measure.iterations
        if self.mode == "overlap":
            return min(wanted, OVERLAP_ITERATIONS)
        if have < wanted:
            return wanted - have
        precision = self.measure.precision
        if precision is None or have >= self.measure.max_iterations:
            return 0
        if is_precise(self._cycles(), precision):
            return 0
        return min(have, self.measure.max_iterations - have)

    def _cycles(self) -> NDArray[np.float64]:
        """Mean step time of each accumulation: single iterations differ by design there."""
        if not self.ranks.size:
            return np.empty(0)
        whole = self.ranks.shape[1] // self.accumulate * self.accumulate
        means: NDArray[np.float64] = self.ranks[:, :whole].reshape(len(self.ranks), -1, self.accumulate).mean(axis=2)
        return step_times(means, self.shared)

    def _whole(self, iterations: int) -> int:
        """Rounded up to whole accumulations."""
        return -(-iterations // self.accumulate) * self.accumulate
