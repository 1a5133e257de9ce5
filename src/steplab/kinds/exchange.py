"""Trials of kind `exchange`: the framework's own collective over the network's gradients, and a plain line beside it.

`steplab network` makes a study of this kind, with arrays of many sizes for a network, and of its records a network
profile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from steplab.core.measurement import Section
from steplab.core.order_statistics import median_interval
from steplab.core.record import Mode, Record
from steplab.core.resolution import Resolved, graph_of
from steplab.core.trial import Level
from steplab.kinds.base import Tell, TrialKind
from steplab.kinds.blocks import BlockDirector
from steplab.kinds.director import Director, OutOfTurn, all_of
from steplab_worker.messages import Message, Offer, Offered

WARMUP = 2  # exchanges, where the study leaves them to us
FEWEST = 5  # exchanges of a trial, however long each takes
ITEM_BYTES = 4  # of a gradient
STARTER = """\
[exchange]                           # with kind = "exchange" only
seconds = 2.0                        # of measuring after which five exchanges are enough
"""


class Exchange(Section):
    """[exchange]: how long exchanges are measured, if they are slow."""

    seconds: Annotated[int | float, Field(gt=0, le=3600)] = 2.0


@dataclass(frozen=True)
class ExchangeKind(TrialKind):
    """Exchanges of gradients, each begun by all ranks together."""

    name = "exchange"
    summary = "time of a collective"
    ability = "step"
    fields = Exchange
    starter = STARTER
    columns = ("exchange_cpu_s", "pair_s", "pair_low_s", "pair_high_s")

    section: Exchange

    @classmethod
    def row(cls, record: Record) -> dict[str, Any]:
        """CPU seconds of an exchange in a rank, and the plain line's time with the 95 % interval of its median."""
        looked = _columns(record, "t_pair")[0]
        pair = looked[looked > 0] if (looked > 0).any() else np.full(1, np.nan)
        pair_low, pair_high = median_interval(pair)
        return {
            "exchange_cpu_s": float(np.median(_columns(record, "t_cpu").mean(axis=0))),
            "pair_s": float(np.median(pair)),
            "pair_low_s": pair_low,
            "pair_high_s": pair_high,
        }

    def iterations(self, resolved: Resolved) -> int:
        """One mode."""
        return WARMUP + self.measure.iterations

    def job_part(self, resolved: Resolved, samples: int | None, checkpoints: Path) -> dict[str, Level]:
        """How many bytes the plain line moves: those of the gradients."""
        graph = graph_of(resolved)
        return {"message_bytes": ITEM_BYTES * graph.parameters if graph else 0}

    def director(self, resolved: Resolved, tell: Tell) -> Director:
        """Ends early where exchanges are slow."""
        return ExchangeDirector(self.measure, 1, seconds=self.section.seconds)


def _columns(record: Record, name: str) -> NDArray[np.float64]:
    """A column's measured times, ranks × iterations; not numbers where a record lacks them."""
    rows = [_measured(rank.modes["native"], name) for rank in record.ranks if "native" in rank.modes]
    shared = min(map(len, rows), default=0)
    return np.array([row[:shared] for row in rows]) if shared else np.full((1, 1), np.nan)


def _measured(mode: Mode, name: str) -> list[float]:
    times = mode.columns.get(name, [math.nan] * len(mode.warmup))
    return [seconds for seconds, warm in zip(times, mode.warmup, strict=True) if not warm]


@dataclass
class ExchangeDirector(BlockDirector):
    """Passes on where the first rank listens, then asks for exchanges until there are enough of them."""

    seconds: float = 2.0
    offered: bool = False

    def answers(self, asked: Mapping[int, Message]) -> dict[int, Message]:
        """What each rank is told after all have asked."""
        if self.offered:
            return super().answers(asked)
        offers = all_of(asked, Offer)
        self.offered = True
        return {rank: Offered([offer.address for offer in offers.values()]) for rank in offers}

    def next(self, mode: str, block: Sequence[Sequence[float]]) -> tuple[int, bool, bool]:
        """After a block of times per rank: how many exchanges next, whether they are warm-up, and the last ones."""
        if mode != "native":
            raise OutOfTurn(0, f"sent a block of mode {mode}, but an exchange has only native ones")
        warmup = WARMUP if self.measure.warmup == "auto" else self.measure.warmup
        if not self.mode and warmup:
            self.mode = mode
            return warmup, True, False
        if not self.warm:
            self.mode, self.warm = mode, True
            return min(FEWEST, self.measure.iterations), False, False
        self.ranks = np.hstack([self.ranks, block]) if self.ranks.size else np.asarray(block, dtype=float)
        return self._more(), False, False

    def _more(self) -> int:
        """As many more as the time allows; none ends the mode."""
        have, spent = int(self.ranks.shape[1]), float(self.ranks.mean(axis=0).sum())
        left = self.measure.iterations - have
        if spent >= self.seconds:
            return 0
        return max(0, min(left, int((self.seconds - spent) / (spent / have)) if spent else left))


KIND = ExchangeKind
