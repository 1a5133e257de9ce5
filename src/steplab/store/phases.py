"""The phases of a trial's typical step, of many trials at once, and the imbalance of its ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steplab.core.order_statistics import median
from steplab.core.record import Record
from steplab.core.step_time import rank_weights
from steplab.store.raw import POSITION, RAW, Raw, together
from steplab_worker.phases import EXCHANGE, EXCHANGE_PARTS, LAYERED, REST, addends

Array = NDArray[np.float64]
Phased = tuple[Raw, float, Array]  # with its native median and its phased cube, RAW × ranks × accumulations


def phases_of(trials: Sequence[tuple[Raw, float]]) -> list[dict[str, Any]]:
    """The columns about phases of each trial, given with its median native step time.

    Averages over ranks and over the central half of the iterations: medians of parts do not add up to the median of
    the whole; averages over the same iterations do, exactly. Ranks that wait for nobody count by their rates.
    """
    cubes = [(raw, native, raw.measured("phased")) for raw, native in trials]
    return together(cubes, lambda trial: (trial[2].shape, _have(trial[0].record), trial[0].shared), _alike)


def _have(record: Record) -> tuple[str, ...]:
    columns = record.ranks[0].modes["phased"].columns
    return tuple(name for name in RAW if name in columns)


def _alike(trials: list[Phased]) -> list[dict[str, Any]]:
    """Trials with the same phases, ranks and iterations."""
    cubes = np.stack([cube for *_, cube in trials])
    weights = rank_weights(cubes[:, POSITION["t_iter"]], trials[0][0].shared)
    steps = (cubes * weights[:, None, :, None]).sum(axis=2)
    typical = central_half(steps[:, POSITION["t_iter"]])
    means = np.where(typical[:, None, :], steps, 0.0).sum(axis=2) / typical.sum(axis=1)[:, None]
    have = _have(trials[0][0].record)
    imbalance = _imbalance(cubes, have)
    return [
        _row(raw.record, native, {name: mean[POSITION[name]] for name in have}, lif)
        for (raw, native, _), mean, lif in zip(trials, means.tolist(), imbalance, strict=True)
    ]


def _row(record: Record, native: float, row: dict[str, float], lif: float) -> dict[str, Any]:
    phased = row.pop("t_iter")
    row.pop("t_barrier", None)  # was taken out of the step when it was measured
    row[REST] = phased - sum(row[name] for name in addends(row))
    if EXCHANGE not in row and "t_move" in row:  # an imported t_c may be known only as a whole
        row[EXCHANGE] = sum(row.get(name, 0.0) for name in EXCHANGE_PARTS)
    # One time for all workers hides their imbalance: of one process with several, or of another program.
    hidden = len(record.ranks) < (record.resolved.workers or 0)
    return row | {
        "t_iter_phased": phased,
        "observer_cost": phased / native - 1.0 if native and not _one_run(record) else np.nan,
        "lif": np.nan if hidden else lif,
    }


def _one_run(record: Record) -> bool:
    """Whether both modes tell of the same iterations, as imported ones do; then nothing was observed apart."""
    modes = record.ranks[0].modes
    return modes["native"].columns["t_iter"] == modes["phased"].columns["t_iter"]


def central_half(times: Array) -> NDArray[np.bool_]:
    """Which times lie between the quartiles, along the last axis.

    >>> central_half(np.array([9.0, 1.0, 2.0, 3.0, 4.0])).tolist()
    [False, False, True, True, True]
    """
    ordered, last = np.sort(times, axis=-1), times.shape[-1] - 1
    low, high = ordered[..., math.floor(0.25 * last)], ordered[..., math.ceil(0.75 * last)]
    inside: NDArray[np.bool_] = (times >= low[..., None]) & (times <= high[..., None])
    return inside


def _imbalance(cubes: Array, have: tuple[str, ...]) -> list[float]:
    """The load imbalance factor of each trial, from its ranks' median compute times."""
    compute = [cubes[:, POSITION[name]] for name in LAYERED if name in have]
    if not compute:
        return [math.nan] * len(cubes)
    factors: list[float] = load_imbalance(median(sum(compute[1:], compute[0]))).tolist()
    return factors


def load_imbalance(compute: Array) -> Array:
    """Load imbalance factor N·max t_i / Σ t_i of the ranks' compute times, along the last axis; 1 is balanced.

    >>> float(load_imbalance(np.array([1.0, 3.0])))
    1.5
    """
    total, largest = compute.sum(axis=-1), compute.max(axis=-1)
    return np.where(total > 0, compute.shape[-1] * largest / np.where(total > 0, total, 1.0), 1.0)
