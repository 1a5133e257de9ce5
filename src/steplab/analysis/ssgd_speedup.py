"""The speed-up that the S-SGD formulas give from measured phases, for each way of overlapping (facts, 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Overlap = Literal["none", "io", "communication", "both"]
OVERLAPS: tuple[Overlap, ...] = ("none", "io", "communication", "both")
NEEDED = ("t_f", "t_b")


class _Scaled(Protocol):
    @property
    def speedup(self) -> object: ...
    @property
    def predicted(self) -> dict[Overlap, float]: ...


def predicted_speedups(phases: pd.DataFrame, workers: NDArray[np.int64], strong: bool) -> list[dict[Overlap, float]]:
    """Speed-ups by overlap, one dict for each row of phases; the row of one worker is what they are compared with.

    A phase that was not measured with several workers is taken from one worker, as the source does: its table of
    phases is for one, its table of aggregations for several. Waiting for the slowest rank is never hidden; the bytes'
    own time is what back-propagation can cover.
    """
    none: list[dict[Overlap, float]] = [{} for _ in workers]
    alone = np.flatnonzero(workers == 1)
    if not alone.size or not all(name in phases and np.isfinite(phases[name].iloc[alone[0]]) for name in NEEDED):
        return none
    from steplab.models.ssgd import composed, speedup

    filled = _filled(phases, int(alone[0]), workers)
    n = np.ones(len(workers)) if strong else workers.astype(float)
    for overlap in OVERLAPS:
        times = composed(filled, overlap)
        for made, value in zip(none, speedup(times[alone[0]], times, n).tolist(), strict=True):
            if np.isfinite(value):
                made[overlap] = value
    return none


def _filled(phases: pd.DataFrame, alone: int, workers: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Phases without gaps, as the formulas take them: waiting counts with the forward pass, which nothing hides."""

    def column(name: str) -> NDArray[np.float64]:
        values = phases[name].to_numpy(dtype=float) if name in phases else np.full(len(phases), np.nan)
        own = values[alone] if np.isfinite(values[alone]) else 0.0
        return np.where(np.isfinite(values), values, own)

    wait = column("t_wait")
    move = column("t_move") if "t_move" in phases and phases["t_move"].notna().any() else column("t_c")
    exchange = np.where(workers > 1, move, 0.0)
    made = {name: column(name) for name in ("t_io", "t_h2d", "t_md", "t_b", "t_u")}
    return made | {"t_f": column("t_f") + np.where(workers > 1, wait, 0.0), "t_c": exchange}


def closest(points: Sequence[_Scaled]) -> Overlap | None:
    """The overlap whose predictions come nearest to the measured speed-ups, on the log scale."""
    errors: dict[Overlap, float] = {}
    for overlap in OVERLAPS:
        off = [
            abs(np.log(point.predicted[overlap] / getattr(point.speedup, "value", np.nan)))
            for point in points
            if point.speedup is not None and overlap in point.predicted
        ]
        if off:
            errors[overlap] = float(np.mean(off))
    return min(errors.items(), key=lambda one: one[1])[0] if errors else None
