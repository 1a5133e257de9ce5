"""From what a rank said to its part of a record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from operator import itemgetter

from pydantic import TypeAdapter

from steplab.core.record import Gpu, HeldBytes, LayerTime, Mode, Rank
from steplab_worker.messages import Hello, LayerSeconds, Result
from steplab_worker.placement import Placement

_LAYERS = TypeAdapter(list[LayerTime])  # many rows at once: one by one they would take several times as long


def rank_part(
    hello: Hello, result: Result, clock_offset_s: float, gpu: Gpu | None, place: Placement | None = None
) -> Rank:
    """A rank's part of the record of a trial that ended well."""
    measurement, usage = result.measurement, result.usage
    return Rank(
        rank=hello.rank,
        host=place.host if place else hello.host,
        pid=hello.pid,
        cpu_s=usage.cpu_s,
        peak_bytes=usage.peak_bytes,
        loss=None if math.isnan(measurement.loss) else measurement.loss,
        modes={name: Mode(columns=mode.columns, warmup=mode.warmup) for name, mode in measurement.modes.items()},
        layers=None if measurement.layers is None else _layers(measurement.layers),
        clock_offset_s=clock_offset_s,
        gpu=gpu,
        local_rank=place.local_rank if place else None,
        address=place.address if place else None,
        device=place.device if place else None,
        compile_s=measurement.compiled.seconds if measurement.compiled else None,
        before_bytes=usage.before_bytes,
        held=None if usage.held is None else HeldBytes(**asdict(usage.held)),
        recompiled=list(measurement.compiled.again) if measurement.compiled else [],
    )


def _layers(layers: Mapping[str, LayerSeconds]) -> list[LayerTime]:
    """Iteration after iteration, layer after layer."""
    rows = [
        {"layer": name, "iteration": iteration, "t_f": t_f, "t_b": t_b}
        for name, seconds in layers.items()
        for iteration, (t_f, t_b) in enumerate(zip(seconds.t_f, seconds.t_b, strict=True))
    ]
    return _LAYERS.validate_python(sorted(rows, key=itemgetter("iteration")))
