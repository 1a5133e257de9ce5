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
from steplab.kinds.director import Findings, OutOfTurn, all_of
from steplab_worker.messages import Block, Iterate, Measurement, Message

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
    asked: dict[str, int] = field(default_factory=dict)  # the iterations of each mode so far
    due: int = 0  # iterations whose times the next block must hold
    ended: bool = True  # the mode, so that another one may begin
    renew_s: float = 0.0  # the trial has one deadline, whatever it says meanwhile

    def answers(self, asked: Mapping[int, Message]) -> dict[int, Message]:
        """What each rank is told after all have sent a block."""
        blocks = all_of(asked, Block)
        for rank, block in blocks.items():
            self._expect(rank, block, blocks[0].mode)
        iterations, warmup, last = self.next(blocks[0].mode, [block.t_iter for block in blocks.values()])
        self.due, self.ended = iterations, last or not iterations
        self.asked[self.mode] = self.asked.get(self.mode, 0) + iterations
        return {rank: Iterate(iterations, warmup, last) for rank in blocks}

    def _expect(self, rank: int, block: Block, mode: str) -> None:
        """A block of the mode that all ranks are in, with the times that were asked for."""
        if block.mode != mode or (block.mode in self.asked) == self.ended:
            raise OutOfTurn(rank, f"sent a block of mode {block.mode} out of turn")
        due = 0 if self.ended else self.due
        if len(block.t_iter) != due:
            raise OutOfTurn(rank, f"sent {len(block.t_iter)} times of mode {block.mode} where {due} were due")

    def check(self, measurements: Mapping[int, Measurement]) -> None:
        """The ranks have measured in every mode what they were told to."""
        for rank, measurement in measurements.items():
            counts = {name: len(mode.warmup) for name, mode in measurement.modes.items()}
            if not self.ended or counts != self.asked:
                raise OutOfTurn(rank, f"sent a Result of {_listed(counts)} where {_listed(self.asked)} were due")

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


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {mode} iterations" for mode, count in counts.items()) or "no iterations"
