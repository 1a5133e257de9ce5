"""From what a rank said to its part of a record."""

from __future__ import annotations

import math

from steplab.core.record import Gpu, LayerTime, Mode, Rank
from steplab_worker.messages import Hello, LayerSeconds, Result
from steplab_worker.placement import Placement


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
        layers=None if measurement.layers is None else [_layer(layer) for layer in measurement.layers],
        clock_offset_s=clock_offset_s,
        gpu=gpu,
        local_rank=place.local_rank if place else None,
        address=place.address if place else None,
        device=place.device if place else None,
    )


def _layer(layer: LayerSeconds) -> LayerTime:
    return LayerTime(layer=layer.layer, iteration=layer.iteration, t_f=layer.t_f, t_b=layer.t_b)
