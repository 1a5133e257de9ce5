"""The ceilings of this machine, measured: sgemm for arithmetic, triad and sums for each level of memory.

What is measured must bound what a framework can reach, so the kernels are PyTorch's own where its environment is
there, NumPy's otherwise. A ceiling is the best of all repetitions (each lasting at least 10 ms); the spread of the
others, and the CPU that other programs took, tell how far to trust it. Bytes are those that really move: triad counts
16 bytes per element, because a line is fetched before it is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from steplab.core.errors import EnvironmentFault
from steplab.core.home import home
from steplab.costs.roofs import MEMORY, Ceiling, Ceilings, Level
from steplab.runner.environments import worker
from steplab.runner.environments.registry import find
from steplab.runner.instruments.cpu_caches import Cache, data_caches
from steplab.runner.instruments.machine import busy_cpu_s
from steplab.store.records import write_file
from steplab_worker.machine import machine

FORMAT = 1
ROUNDS = 5
PATIENCE_S = 300.0  # then the worker hangs
SECONDS = 10.0  # all slots together; starting the worker comes on top
DISTURBED = 0.15  # share of the machine's CPU
Progress = Callable[[float], None]


@dataclass
class _Seen:
    """What the slots of one thread count have reached so far."""

    rates: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    others: float = 0.0  # CPU seconds of other programs
    available: float = 0.0  # CPU seconds that passed on all CPUs

    def add(self, sample: dict[str, Any]) -> None:
        self.rates.setdefault((sample["level"], sample["kernel"]), []).extend(map(float, sample["rates"]))


def ceilings(remeasure: bool = False, seconds: float = SECONDS, progress: Progress = lambda share: None) -> Ceilings:
    """The ceilings of this machine: those measured before, or measured now."""
    known = known_ceilings()
    if known is not None and not remeasure:
        return known
    measured = measure_here(seconds, progress)
    if known is not None and disturbed(measured):
        # Disturbance only ever makes a roof too low.
        measured = best_of(known, measured)
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    write_file(place, json.dumps({"format": FORMAT, **asdict(measured)}).encode())
    return measured


def known_ceilings() -> Ceilings | None:
    """The ceilings of this machine that were measured before."""
    return _read(_place())


def _place() -> Path:
    return home() / "ceilings" / f"{_key(_worker()[2])}.json"


def measure_here(seconds: float = SECONDS, progress: Progress = lambda share: None) -> Ceilings:
    """Measure now, and keep nothing."""
    module, python, _ = _worker()
    return measure(module, python, seconds, progress)


def disturbed(measured: Ceilings) -> bool:
    """Whether other programs took so much of the machine that the ceilings may be too low."""
    return any((row.others or 0.0) > DISTURBED for row in measured.rows)


def _worker() -> tuple[str, Path, str]:
    """The worker's module and interpreter, and the version of what it measures with."""
    try:
        environment = find("torch")
    except EnvironmentFault:
        return "ceilings", Path(sys.executable), f"numpy {np.__version__}"
    return "adapters.torch.ceilings", environment.python, f"torch {environment.version}"


def _key(version: str) -> str:
    about = machine()
    parts = [str(part) for part in (about.host, about.cpu, about.cpus, about.memory_bytes)]
    return hashlib.sha256("|".join([*parts, version]).encode()).hexdigest()[:16]


def _read(place: Path) -> Ceilings | None:
    """Ceilings from an earlier call; none if there are none, or if they cannot be understood any more."""
    try:
        stored = json.loads(place.read_text("utf-8"))
        if stored.pop("format") != FORMAT:
            return None
        rows = tuple(_row(row) for row in stored.pop("rows"))
        return Ceilings(rows=rows, notes=tuple(stored.pop("notes")), **stored)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _row(document: dict[str, Any]) -> Ceiling:
    return Ceiling(levels=tuple(Level(**level) for level in document.pop("levels")), **document)


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
    sgemm = {str(count): [512, 1024] if count <= 4 else [1024, 2048] for count in threads}
    job = {"threads": threads, "levels": levels, "sgemm": sgemm, "rounds": ROUNDS}
    return job | {"slot_s": seconds / _slots(job)}


def _level(cache: Cache, threads: list[int]) -> dict[str, Any]:
    # Half of the cache, so that what else is in there does not push the arrays out. A small triad is mostly the call.
    kernels = ["read"] if cache.size < 1 << 20 else ["triad", "read"]
    elements = {str(count): cache.size // 8 if cache.shared == 1 else cache.size // 24 for count in threads}
    return {"name": cache.name, "kernels": kernels, "elements": elements}


def _slots(job: dict[str, Any]) -> int:
    bandwidths = sum(len(level["kernels"]) for level in job["levels"])
    return int(job["rounds"]) * sum(len(job["sgemm"][str(count)]) + bandwidths for count in job["threads"])


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


def best_of(first: Ceilings, second: Ceilings) -> Ceilings:
    """Two measurements of one machine as one: what was reached once can be reached."""
    rows = tuple(_better(a, b) for a, b in zip(first.rows, second.rows, strict=True))
    return Ceilings(second.machine, rows, second.origin, second.source, second.date, second.notes)


def _better(first: Ceiling, second: Ceiling) -> Ceiling:
    every = sorted([*first.levels, *second.levels], key=lambda level: level.bytes_per_s)
    levels = sorted({level.name: level for level in every}.values(), key=lambda level: level.capacity)
    # A cache behind which something is faster was not seen rightly in one of the two.
    kept = [
        near for at, near in enumerate(levels) if all(near.bytes_per_s > far.bytes_per_s for far in levels[at + 1 :])
    ]
    others = [row.others for row in (first, second) if row.others is not None]
    return Ceiling(
        first.threads,
        max(first.flops_per_s, second.flops_per_s),
        tuple(kept),
        max(first.spread, second.spread),
        min(others, default=None),
    )
