"""The ceilings of this machine: measured once, and kept.

What is measured must bound what a framework can reach, so the kernels are PyTorch's own where its environment is
there, and NumPy's otherwise, in which there is no bfloat16.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from steplab.core.errors import EnvironmentFault
from steplab.core.home import home
from steplab.costs.roofs import Ceiling, Ceilings, Level
from steplab.runner.environments.registry import find
from steplab.runner.instruments.ceiling_measurement import DISTURBED, Progress, measure, with_bfloat16
from steplab.store.records import write_file
from steplab_worker.machine import machine

FORMAT = 2  # 2: there are rows in bfloat16
SECONDS = 10.0  # all slots together; starting the worker comes on top
TORCH = "adapters.torch.ceilings"


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
    measured = measure(module, python, seconds, progress)
    return with_bfloat16(measured, module, python, seconds / 3) if module == TORCH else measured


def disturbed(measured: Ceilings) -> bool:
    """Whether other programs took so much of the machine that the ceilings may be too low."""
    return any((row.others or 0.0) > DISTURBED for row in measured.rows)


def _worker() -> tuple[str, Path, str]:
    """The worker's module and interpreter, and the version of what it measures with."""
    try:
        environment = find("torch")
    except EnvironmentFault:
        return "ceilings", Path(sys.executable), f"numpy {np.__version__}"
    return TORCH, environment.python, f"torch {environment.version}"


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


def best_of(first: Ceilings, second: Ceilings) -> Ceilings:
    """Two measurements of one machine as one: what was reached once can be reached."""
    before = {(row.precision, row.threads): row for row in first.rows}
    now = {(row.precision, row.threads): row for row in second.rows}
    rows = tuple(
        _better(before[key], now[key]) if key in before and key in now else {**before, **now}[key]
        for key in {**before, **now}
    )
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
        first.precision,
    )
