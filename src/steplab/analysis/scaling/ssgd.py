"""The speed-up that the S-SGD formulas give from measured phases, for each way of overlapping (MMU, chapter 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.summary import Ratio
from steplab.models.formulas.step_composition import OVERLAPS, Overlap, composed, speedup
from steplab_worker.phases import LAYERED, PHASES

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
Predicted = dict[Overlap, float]


class _Scaled(Protocol):
    @property
    def speedup(self) -> Ratio | None: ...
    @property
    def predicted(self) -> Predicted: ...


def predicted_speedups(phases: pd.DataFrame, workers: Indices, base: Indices, strong: Flags) -> list[Predicted]:
    """Speed-ups by overlap for each configuration; `base` is that of one worker to compare it with, or −1.

    A phase that was not measured with several workers is taken from one worker, as the source does: its table of
    phases is for one, its table of aggregations for several. Waiting for the slowest rank is never hidden; the bytes'
    own time is what back-propagation can cover.
    """
    predicted: list[Predicted] = [{} for _ in workers]
    if not set(LAYERED) <= set(phases.columns):
        return predicted
    known = np.isfinite(phases[list(LAYERED)].to_numpy(dtype=float)).all(axis=1)
    places = np.flatnonzero((base >= 0) & known[base])
    if not places.size:
        return predicted
    own, alone = (_filled(phases, at, base[places], workers[at]) for at in (places, base[places]))
    n = np.where(strong[places], 1.0, workers[places])
    for overlap in OVERLAPS:
        values = speedup(composed(alone, overlap), composed(own, overlap), n).tolist()
        for at, value in zip(places.tolist(), values, strict=True):
            if np.isfinite(value):
                predicted[at][overlap] = value
    return predicted


def _filled(phases: pd.DataFrame, at: Indices, alone: Indices, workers: Indices) -> dict[str, NDArray[np.float64]]:
    """Phases without gaps, as the formulas take them: what is exchanged and waiting for it apart."""

    def column(name: str) -> NDArray[np.float64]:
        values = phases[name].to_numpy(dtype=float) if name in phases else np.full(len(phases), np.nan)
        single = np.where(np.isfinite(values[alone]), values[alone], 0.0)
        return np.where(np.isfinite(values[at]), values[at], single)

    wait = np.where(workers > 1, column("t_wait"), 0.0)
    exchange = np.where(workers > 1, column("t_move"), 0.0)
    if "t_c" in phases:
        # An imported table may know the aggregation only as a whole.
        whole = phases["t_c"].to_numpy(dtype=float)[at]
        exchange = np.where(np.isfinite(whole) & (workers > 1), np.maximum(whole - wait, 0.0), exchange)
    return {name: column(name) for name in PHASES} | {"t_wait": wait, "t_c": exchange}


def closest(points: Sequence[_Scaled]) -> Overlap | None:
    """The overlap whose predictions come nearest to the measured speed-ups, on the log scale."""
    errors: dict[Overlap, float] = {}
    for overlap in OVERLAPS:
        off = [
            abs(math.log(point.predicted[overlap] / point.speedup.value))
            for point in points
            if point.speedup is not None and overlap in point.predicted
        ]
        if off:
            errors[overlap] = sum(off)
    return min(errors.items(), key=lambda item: item[1])[0] if errors else None
