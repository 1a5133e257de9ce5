"""Measuring the roofs: products for arithmetic, triad and sums for each level of memory.

A ceiling is the best of all repetitions (each lasting at least 10 ms); the spread of the others, and the CPU that
other programs took, tell how far to trust it. Bytes are those that really move: triad counts 16 bytes per element,
because a line is fetched before it is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from steplab.core.errors import EnvironmentFault
from steplab.costs.roofs import FLOAT32, MEMORY, Ceiling, Ceilings, Level
from steplab.runner.environments import worker
from steplab.runner.instruments.cpu_caches import Cache, data_caches
from steplab.runner.instruments.machine import busy_cpu_s
from steplab_worker import amx
from steplab_worker.machine import machine

ROUNDS = 5
PATIENCE_S = 300.0  # then the worker hangs
DISTURBED = 0.15  # share of the machine's CPU
BFLOAT16 = "bfloat16"
PRODUCTS = {FLOAT32: "sgemm", BFLOAT16: "bgemm"}  # the kernels of the worker
Progress = Callable[[float], None]


@dataclass
class _Seen:
    """What the slots of one thread count have reached so far."""

    rates: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    others: float = 0.0  # CPU seconds of other programs
    available: float = 0.0  # CPU seconds that passed on all CPUs

    def add(self, sample: dict[str, Any]) -> None:
        self.rates.setdefault((sample["level"], sample["kernel"]), []).extend(map(float, sample["rates"]))


def measure(module: str, python: Path, seconds: float, progress: Progress) -> Ceilings:
    """Measure all thread counts and kernels, interleaved."""
    caches, threads = data_caches(), thread_counts(os.cpu_count() or 1)
    job = _job(caches, threads, seconds)
    seen = {count: _Seen() for count in threads}
    about, done, total = "", 0, _slots(job)
    busy = own = clock = 0.0
    for sample, now in _ask(python, module, job):
        about = sample.get("about", about)
        if "rates" in sample:
            row = seen[sample["threads"]]
            row.add(sample)
            done += 1
            if done > 1:  # the first slot began before anybody looked
                row.others += max((now.busy - busy) - (sample["cpu_s"] - own), 0.0)
                row.available += (now.clock - clock) * (os.cpu_count() or 1)
            busy, own, clock = now.busy, sample["cpu_s"], now.clock
            progress(done / total)
    rows = tuple(_ceiling(count, seen[count], caches) for count in threads)
    return Ceilings(machine().cpu, rows, "measured", about, _today(), _notes(rows, caches))


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def thread_counts(cpus: int) -> list[int]:
    """1 to the number of CPUs; on a large machine powers of two and all of them.

    >>> thread_counts(4), thread_counts(48)
    ([1, 2, 3, 4], [1, 2, 4, 8, 16, 32, 48])
    """
    if cpus <= 8:
        return list(range(1, cpus + 1))
    return sorted({1 << power for power in range(cpus.bit_length()) if 1 << power <= cpus} | {cpus})


def _job(caches: list[Cache], threads: list[int], seconds: float) -> dict[str, Any]:
    """What the worker is to do; arrays for main memory are far larger than the last cache, if there is room."""
    levels = [_level(cache, threads) for cache in caches]
    last = max((cache.capacity(threads[-1]) for cache in caches), default=32 << 20)
    room = psutil.virtual_memory().available // 40
    elements = max(min(4 * last, room), 1 << 20) // 4
    levels.append(
        {"name": MEMORY, "kernels": ["triad", "read"], "elements": {str(count): elements for count in threads}}
    )
    sgemm = _extents(threads)
    job = {"threads": threads, "levels": levels, "products": ["sgemm"], "sgemm": sgemm, "rounds": ROUNDS}
    return job | {"slot_s": seconds / _slots(job)}


def _extents(threads: Sequence[int]) -> dict[str, list[int]]:
    """Of the matrices of a product, by the number of threads."""
    return {str(count): [512, 1024] if count <= 4 else [1024, 2048] for count in threads}


def _level(cache: Cache, threads: list[int]) -> dict[str, Any]:
    # Half of the cache, so that what else is in there does not push the arrays out. A small triad is mostly the call.
    kernels = ["read"] if cache.size < 1 << 20 else ["triad", "read"]
    elements = {str(count): cache.size // 8 if cache.shared == 1 else cache.size // 24 for count in threads}
    return {"name": cache.name, "kernels": kernels, "elements": elements}


def _slots(job: dict[str, Any]) -> int:
    bandwidths = sum(len(level["kernels"]) for level in job["levels"])
    products = [len(job["products"]) * len(job["sgemm"][str(count)]) for count in job["threads"]]
    return int(job["rounds"]) * sum(product + bandwidths for product in products)


@dataclass(frozen=True)
class _Moment:
    clock: float
    busy: float


def _ask(python: Path, module: str, job: dict[str, Any]) -> Iterator[tuple[dict[str, Any], _Moment]]:
    """Start the worker; its documents as they come, each with the machine's busy time at that moment."""
    try:
        for document in worker.answers(python, module, job, PATIENCE_S):
            yield document, _Moment(time.perf_counter(), busy_cpu_s())
    except worker.HelperFailed as failed:
        raise EnvironmentFault(f"the ceilings cannot be measured: {failed}") from None


def _ceiling(threads: int, seen: _Seen, caches: list[Cache]) -> Ceiling:
    peak, spread = _best([rates for (level, _), rates in seen.rates.items() if level == "compute"])
    capacities: dict[str, float] = {cache.name: cache.capacity(threads) for cache in caches}
    levels: list[Level] = []
    for name in [MEMORY, *reversed(capacities)]:
        level = _bandwidth(name, seen, capacities.get(name, float("inf")))
        # A cache that seems no faster than what lies behind it was not seen: the call took longer than the bytes.
        if level and (not levels or level.bytes_per_s > levels[0].bytes_per_s):
            levels.insert(0, level)
    others = min(seen.others / seen.available, 1.0) if seen.available else None
    return Ceiling(threads, peak, tuple(levels), max(spread, levels[-1].spread), others)


def _bandwidth(name: str, seen: _Seen, capacity: float) -> Level | None:
    by_kernel = {kernel: rates for (level, kernel), rates in seen.rates.items() if level == name}
    if not by_kernel:
        return None
    kernel = max(by_kernel, key=lambda candidate: max(by_kernel[candidate]))
    best, spread = _best([by_kernel[kernel]])
    return Level(name, best, capacity, spread, kernel)


def _best(samples: list[list[float]]) -> tuple[float, float]:
    """The best rate, and how far below it the median of its kernel lies, as a share."""
    best = max(samples, key=max)
    return max(best), 1.0 - float(np.median(best)) / max(best)


def _notes(rows: tuple[Ceiling, ...], caches: list[Cache]) -> tuple[str, ...]:
    notes = []
    unseen = [cache.name for cache in caches if cache.name not in {level.name for level in rows[0].levels}]
    if unseen:
        notes.append(f"{', '.join(unseen)}: no faster than the next level when seen through this program, left out")
    worst = max(row.others or 0.0 for row in rows)
    if worst > DISTURBED:
        notes.append(f"other programs took up to {worst:.0%} of the machine: --remeasure when it is quiet")
    return tuple(notes)


def with_bfloat16(measured: Ceilings, module: str, python: Path, seconds: float) -> Ceilings:
    """The same with rows in bfloat16; where its products end their process, with a note that says so instead.

    They are measured in a process of its own, in turn with products in float32, so that the two can be compared, and
    off the CPU's tiles where these do not work. Bytes move as fast as ever.
    """
    rates: dict[tuple[str, int], list[float]] = {}
    try:
        for sample in worker.answers(python, module, _product_job(measured, seconds), PATIENCE_S, _off_broken_tiles()):
            if "rates" in sample:
                rates.setdefault((sample["kernel"], sample["threads"]), []).extend(map(float, sample["rates"]))
    except worker.HelperFailed as failed:
        note = f"{BFLOAT16}: no roof, a product ended its process: {failed}"
        return replace(measured, notes=(*measured.notes, note))
    return replace(measured, rows=tuple(_in(name, row, rates) for name in PRODUCTS for row in measured.rows))


def _product_job(measured: Ceilings, seconds: float) -> dict[str, Any]:
    threads = [row.threads for row in measured.rows]
    kernels = list(PRODUCTS.values())
    job = {"threads": threads, "levels": [], "products": kernels, "sgemm": _extents(threads), "rounds": ROUNDS}
    return job | {"slot_s": seconds / _slots(job)}


def _off_broken_tiles() -> dict[str, str]:
    return amx.keep_off(amx.state())


def _in(precision: str, row: Ceiling, rates: dict[tuple[str, int], list[float]]) -> Ceiling:
    """A row of roofs in a precision; what float32 reached before counts, too."""
    best, spread = _best([rates[PRODUCTS[precision], row.threads]])
    if precision == row.precision:
        return replace(row, flops_per_s=max(best, row.flops_per_s))
    return replace(row, flops_per_s=best, spread=max(spread, row.levels[-1].spread), precision=precision)
