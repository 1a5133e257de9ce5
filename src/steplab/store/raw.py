"""A record's raw times as arrays, and how to compute with those of many records at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from steplab import kinds
from steplab.core.record import Mode, Record
from steplab.core.step_time import step_times
from steplab.store.communication import OVERLAP
from steplab_worker.phases import MEASURED

Array = NDArray[np.float64]
Value = TypeVar("Value")
Result = TypeVar("Result")
RAW = (*MEASURED, "t_barrier", *OVERLAP)
POSITION = {name: at for at, name in enumerate(RAW)}


class Raw:
    """A record with its times: RAW × iterations for each rank and mode, NaN where nothing was measured.

    They are converted once for all that is made of them: that is much of the work of reading a large study.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.blocks = [
            (rank.rank, name, mode, _block(mode)) for rank in record.ranks for name, mode in rank.modes.items()
        ]

    def has(self, mode: str) -> bool:
        """Whether the trial ended well and every rank was measured in that mode, warm-up aside."""
        modes = [rank.modes.get(mode) for rank in self.record.ranks]
        return self.record.status == "ok" and all(times is not None and False in times.warmup for times in modes)

    @property
    def shared(self) -> bool:
        """Whether the ranks share one period."""
        return kinds.named(self.record.kind).shares_period(self.record.resolved.strategy)

    @cached_property
    def native(self) -> Array:
        """Native step times without warm-up, one for all ranks."""
        return step_times(self.measured("native")[POSITION["t_iter"]], self.shared)

    def measured(self, mode: str) -> Array:
        """RAW × ranks × accumulations: what was measured without warm-up, averaged over each accumulation.

        Only the last iteration of an accumulation exchanges gradients, so a median over single iterations would
        hide it.
        """
        arrays = [
            block[:, ~np.array(series.warmup, dtype=bool)] if True in series.warmup else block
            for _, name, series, block in self.blocks
            if name == mode
        ]
        least = min(array.shape[1] for array in arrays)
        cycle = self.record.resolved.accumulate
        if least < cycle:  # imported averages are one row for a whole accumulation
            cycle = 1
        whole = least // cycle * cycle
        stacked = np.stack([array[:, :whole] for array in arrays], axis=1)
        return stacked.reshape(len(RAW), len(arrays), -1, cycle).mean(axis=3) if cycle > 1 else stacked


def _block(mode: Mode) -> Array:
    rows = np.full((len(RAW), len(mode.warmup)), np.nan)
    for name, values in mode.columns.items():
        if name in POSITION:
            rows[POSITION[name]] = values
    return rows


def together(
    values: Sequence[Value], alike: Callable[[Value], Hashable], results_of: Callable[[list[Value]], list[Result]]
) -> list[Result]:
    """What `results_of` gives for each value, called once for all that are alike: arrays of one shape go together.

    >>> together(["a", "bb", "c"], len, lambda group: [f"{text} of {len(group)}" for text in group])
    ['a of 2', 'bb of 1', 'c of 2']
    """
    groups: dict[Hashable, list[int]] = {}
    for at, value in enumerate(values):
        groups.setdefault(alike(value), []).append(at)
    results: dict[int, Result] = {}
    for group in groups.values():
        results |= zip(group, results_of([values[at] for at in group]), strict=True)
    return [results[at] for at in range(len(values))]
