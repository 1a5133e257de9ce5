"""From one record to its row and its columns: medians over whole accumulations, phases, imbalance, doubt."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steplab.core.order_statistics import median, median_interval
from steplab.core.record import Mode, Record
from steplab.core.trial import accumulation
from steplab.store.communication import OVERLAP, UNKNOWN, communication
from steplab.store.doubt import doubt_columns
from steplab.store.placement import placement
from steplab.store.training import training_row

Array = NDArray[np.float64]
PHASES = ("t_io", "t_h2d", "t_md", "t_f", "t_b", "t_c", "t_u")
TIMES = ("t_iter", *PHASES, "t_other")
RAW = ("t_iter", "t_io", "t_h2d", "t_md", "t_f", "t_b", "t_wait", "t_move", "t_u", "t_c", *OVERLAP)
POSITION = {name: at for at, name in enumerate(RAW)}
ALWAYS = (
    "framework",
    "network",
    "dataset",
    "batch_size",
    "workers",
    "threads",
    "strategy",
    "optimizer",
    "learning_rate",
)


class Raw:
    """A record's raw times as arrays: RAW × iterations for each rank and mode, NaN where nothing was measured.

    They are converted once for all that is made of them: that is most of the work of reading a large study.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.cycle = accumulation(str(record.resolved.get("strategy", "sync")))
        self.blocks = [
            (rank.rank, name, mode, _block(mode)) for rank in record.ranks for name, mode in rank.modes.items()
        ]

    def measured(self, mode: str) -> Array:
        """RAW × ranks × accumulations: what was measured without warm-up, averaged over each accumulation.

        Only the last iteration of an accumulation exchanges gradients, so a median over single iterations would
        hide it.
        """
        arrays = [
            block[:, ~np.array(one.warmup, dtype=bool)] if True in one.warmup else block
            for _, name, one, block in self.blocks
            if name == mode
        ]
        least = min(array.shape[1] for array in arrays)
        cycle = 1 if least < self.cycle else self.cycle  # imported averages are one row for a whole accumulation
        whole = least // cycle * cycle
        stacked = np.stack([array[:, :whole] for array in arrays], axis=1)
        return stacked.reshape(len(RAW), len(arrays), -1, cycle).mean(axis=3) if cycle > 1 else stacked


def _block(mode: Mode) -> Array:
    made = np.full((len(RAW), len(mode.warmup)), np.nan)
    for name, values in mode.columns.items():
        if name in POSITION:
            made[POSITION[name]] = values
    return made


def trial_row(record: Record, raw: Raw | None = None) -> dict[str, Any]:
    """The record's row of the table `trials`."""
    row: dict[str, Any] = {name: record.resolved.get(name) for name in ALWAYS} | dict(record.config)
    row |= {"trial": record.trial, "replicate": record.replicate, "status": record.status, "kind": record.kind}
    row |= dict.fromkeys((*TIMES, "t_wait", "t_move"), np.nan) | UNKNOWN
    native = None
    if record.status == "ok":
        raw = raw or Raw(record)
        native = raw.measured("native")[POSITION["t_iter"]].max(axis=0)  # the slowest rank's
        row |= _times(record, native)
        modes = record.ranks[0].modes
        if "phased" in modes:
            row |= _phases(record, raw.measured("phased"), row["t_iter"])
        if "overlap" in modes:
            overlap = raw.measured("overlap")
            row |= communication(overlap[POSITION["t_comm"]], overlap[POSITION["t_exposed"]])
    row |= doubt_columns(record, native)
    return row | _around(record) | training_row(record) | placement(record)


def _times(record: Record, native: Array) -> dict[str, Any]:
    middle = float(median(native))
    spread = 1.4826 * float(median(np.abs(native - middle))) / middle if middle else 0.0
    samples = float(row_value(record, "batch_size")) * float(row_value(record, "workers"))
    low, high = median_interval(native)
    row: dict[str, Any] = {"t_iter": middle, "t_iter_low": low, "t_iter_high": high}
    row |= {"spread": spread, "drift": drift(native)}
    return row | {"iterations": int(native.size), "throughput": samples / middle if middle else np.nan}


def row_value(record: Record, name: str) -> Any:
    """A resolved factor of the record."""
    return record.resolved[name]


def _phases(record: Record, cube: Array, native: float) -> dict[str, Any]:
    """The phases of the typical step: averaged over ranks and over the central half of the iterations.

    Medians of parts do not add up to the median of the whole; averages over the same iterations do, exactly.
    """
    have = [name for name in RAW if name in record.ranks[0].modes["phased"].columns]
    by_rank = {name: cube[POSITION[name]] for name in have}
    typical = central_half(by_rank["t_iter"].mean(axis=0))
    means = cube[:, :, typical].mean(axis=(1, 2)).tolist()
    row = {name: means[POSITION[name]] for name in have}
    phased = row.pop("t_iter")
    row["t_other"] = phased - sum(row.values())
    if "t_c" not in row and "t_move" in row:  # an imported t_c may be known only as a whole
        row["t_c"] = row.get("t_wait", 0.0) + row["t_move"]
    compute = [by_rank[name] for name in ("t_f", "t_b") if name in by_rank]
    if "imported" in record.measure and len(record.ranks) < int(row_value(record, "workers")):
        compute = []  # the source gives one time for all workers, which hides their imbalance
    return row | {
        "t_iter_phased": phased,
        "observer_cost": phased / native - 1.0 if native and not _one_run(record) else np.nan,
        "lif": load_imbalance(median(sum(compute[1:], compute[0]))) if compute else np.nan,
    }


def _one_run(record: Record) -> bool:
    """Whether both modes tell of the same iterations, as imported ones do; then nothing was observed apart."""
    modes = record.ranks[0].modes
    return modes["native"].columns["t_iter"] == modes["phased"].columns["t_iter"]


def central_half(times: Array) -> NDArray[np.bool_]:
    """Which times lie between the quartiles.

    >>> central_half(np.array([9.0, 1.0, 2.0, 3.0, 4.0])).tolist()
    [False, False, True, True, True]
    """
    ordered, last = np.sort(times), len(times) - 1
    low, high = ordered[math.floor(0.25 * last)], ordered[math.ceil(0.75 * last)]
    inside: NDArray[np.bool_] = (times >= low) & (times <= high)
    return inside


def load_imbalance(compute: Array) -> float:
    """Load imbalance factor N·max t_i / Σ t_i of the ranks' compute times; 1 is balanced.

    >>> load_imbalance(np.array([1.0, 3.0]))
    1.5
    """
    total = float(compute.sum())
    return float(compute.size * compute.max() / total) if total else 1.0


def drift(times: Array) -> float:
    """By which share the second half's median lies above the first half's.

    >>> drift(np.array([1.0, 1.0, 1.5, 1.5]))
    0.5
    """
    half = times.size // 2
    first = float(median(times[:half])) if half else 0.0
    return float(median(times[half:])) / first - 1.0 if first else 0.0


def _around(record: Record) -> dict[str, Any]:
    """What was used and where, and how it ended."""
    ok = record.status == "ok"
    return {
        # An imported record has 0 where nobody looked.
        "memory_bytes": max((rank.peak_bytes for rank in record.ranks), default=np.nan) or np.nan,
        "cpu_s": (sum(rank.cpu_s for rank in record.ranks) or np.nan) if ok else np.nan,
        "other_cpu_s": record.other_cpu_s,
        "energy_j": record.energy.joules,
        "energy_provenance": record.energy.provenance,
        "loss": record.ranks[0].loss if ok else np.nan,
        "seconds": record.seconds,
        "data_source": record.data.source,
        "host": record.machine.get("host"),
        "version": record.versions.get(str(record.resolved.get("framework")), ""),
        "started": record.started,
        "reason": record.reason,
    }
