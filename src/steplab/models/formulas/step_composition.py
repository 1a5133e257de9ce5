"""The time of a synchronous step from its phases, added or overlapped: the S-SGD formulas (MMU thesis, chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

Array = np.ndarray
Overlap = Literal["none", "io", "communication", "both"]
OVERLAPS: tuple[Overlap, ...] = ("none", "io", "communication", "both")


@dataclass(frozen=True)
class Phases:
    """Phases of one iteration in seconds; forward, backward and aggregation by rank (rows) and layer."""

    t_io: float
    t_h2d: float
    t_md: float
    t_f: Array
    t_b: Array
    t_c: Array
    t_u: float


def iteration_time(phases: Phases, overlap: str = "none") -> float:
    """The time of an iteration: the slowest rank counts, layer by layer where communication overlaps.

    >>> half = np.full((2, 2), 0.5)
    >>> measured = Phases(1, 0, 0, half, half, half, 0)
    >>> iteration_time(measured), iteration_time(measured, "both")
    (4.0, 2.5)
    """
    slowest = max(_rank_time(*rank, overlap in ("communication", "both"))
                  for rank in zip(phases.t_f, phases.t_b, phases.t_c, strict=True))  # fmt: skip
    loading, working = phases.t_io + phases.t_h2d + phases.t_md, slowest + phases.t_u
    return max(loading, working) if overlap in ("io", "both") else loading + working


def _rank_time(forward: Array, backward: Array, aggregate: Array, overlapped: bool) -> float:
    if not overlapped:
        return float(forward.sum() + backward.sum() + aggregate.sum())
    # Back-propagation runs from the last layer to the first; a layer is sent once its gradient is there.
    ready = float(forward.sum())
    sent = ready
    for b, c in zip(backward[::-1], aggregate[::-1], strict=True):
        ready += float(b)
        sent = max(sent, ready) + float(c)
    return max(ready, sent)


def speedup(single: Array, several: Array, workers: Array) -> Array:
    """S = N·t_iter(1)/t_iter(N) under weak scaling (MMU thesis, chapter 3)."""
    return np.asarray(workers * single / several)


def composed(phases: Mapping[str, Array], overlap: str) -> Array:
    """Phases put together; without phases there is only `t_rest` and `t_c`. Waiting (`t_wait`) is never hidden."""
    if "t_rest" in phases:
        return np.asarray(phases["t_rest"] + phases["t_c"])
    loading = phases["t_io"] + phases["t_h2d"] + phases["t_md"]
    hidden = overlap in ("communication", "both")
    back = np.maximum(phases["t_b"], phases["t_c"]) if hidden else phases["t_b"] + phases["t_c"]
    working = phases["t_f"] + phases["t_wait"] + back + phases["t_u"]
    return np.asarray(np.maximum(loading, working) if overlap in ("io", "both") else loading + working)
