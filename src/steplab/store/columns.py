"""From records to their rows of the table `trials`: step times, phases, communication, doubt, and all around."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from steplab.core.memory_columns import MEMORY
from steplab.core.record import HeldBytes, Record
from steplab.store.communication import UNKNOWN, communication
from steplab.store.doubt import doubt_columns
from steplab.store.of_kinds import kind_row
from steplab.store.phases import phases_of
from steplab.store.placement import placement
from steplab.store.raw import POSITION, Raw
from steplab.store.series import Series, series_of
from steplab_worker.phases import EXCHANGE_PARTS, ITERATION, SHARES

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


def trial_row(record: Record) -> dict[str, Any]:
    """The record's row of the table `trials`."""
    return trial_rows([Raw(record)])[0]


def trial_rows(raws: Sequence[Raw]) -> list[dict[str, Any]]:
    """The records' rows of the table `trials`; trials that are alike are computed at once."""
    rows = [_known(raw.record) for raw in raws]
    good = [at for at, raw in enumerate(raws) if raw.has("native")]
    native = dict(zip(good, series_of([raws[at].native for at in good]), strict=True))
    for at in good:
        rows[at] |= _times(raws[at].record, native[at])
    phased = [at for at in good if raws[at].has("phased")]
    for at, phase_columns in zip(phased, phases_of([(raws[at], native[at].median) for at in phased]), strict=True):
        rows[at] |= phase_columns
    for at in good:
        if raws[at].has("overlap"):
            overlap = raws[at].measured("overlap")
            rows[at] |= communication(overlap[POSITION["t_comm"]], overlap[POSITION["t_exposed"]])
    for at, record in enumerate(raw.record for raw in raws):
        rows[at] |= doubt_columns(record, native.get(at)) | _around(record) | kind_row(record) | placement(record)
    return rows


def _known(record: Record) -> dict[str, Any]:
    """What is known without any time, and the times' columns still empty."""
    row: dict[str, Any] = {name: getattr(record.resolved, name) for name in ALWAYS} | dict(record.config)
    row |= {"trial": record.trial, "replicate": record.replicate, "status": record.status, "kind": record.kind}
    return row | dict.fromkeys((ITERATION, *SHARES, *EXCHANGE_PARTS), np.nan) | UNKNOWN


def _times(record: Record, native: Series) -> dict[str, Any]:
    return {
        "t_iter": native.median,
        "t_iter_low": native.low,
        "t_iter_high": native.high,
        "spread": native.spread,
        "drift": native.change,
        "iterations": len(native.times),
        "throughput": (record.resolved.step_samples / native.median or np.nan) if native.median else np.nan,
    }


def _variables(record: Record) -> str | None:
    """The environment variables that rank 0 found set, as a shell would write them; None where nobody looked."""
    if not record.variables:
        return None
    first = record.variables[0]
    return shlex.join(f"{name}={value}" for name, value in sorted(first.seen.items()) if name not in first.own)


def _memory(record: Record) -> dict[str, Any]:
    """The largest rank's peak, and what can be told of it: before the trial, and by its framework."""
    # An imported record has 0 where nobody looked.
    largest = max((rank for rank in record.ranks if rank.peak_bytes), key=lambda rank: rank.peak_bytes, default=None)
    if largest is None:
        return dict.fromkeys(MEMORY, np.nan)
    told = largest.held or HeldBytes()
    parts = (largest.peak_bytes, largest.before_bytes, told.parameters, told.state, told.peak, told.reserved)
    return {name: np.nan if bytes_ is None else bytes_ for name, bytes_ in zip(MEMORY, parts, strict=True)}


def _around(record: Record) -> dict[str, Any]:
    """What was used and where, and how it ended."""
    ok = record.status == "ok"
    return {
        **_memory(record),
        "cpu_s": (sum(rank.cpu_s for rank in record.ranks) or np.nan) if ok else np.nan,
        "compile_s": max((rank.compile_s for rank in record.ranks if rank.compile_s is not None), default=np.nan),
        "recompilations": max((len(rank.recompiled) for rank in record.ranks), default=0),
        "other_cpu_s": record.other_cpu_s,
        "energy_j": record.energy.joules,
        "energy_provenance": record.energy.provenance,
        "loss": record.ranks[0].loss if ok else np.nan,
        "seconds": record.seconds,
        "data_source": record.data.source,
        "host": record.machine.host,
        "version": record.versions.get(str(record.resolved.framework), ""),
        "variables": _variables(record),
        "started": record.started,
        "reason": record.reason,
    }
