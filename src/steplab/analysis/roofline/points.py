"""Where layers, phases and kernels stand under the roofs of a machine.

FLOPs and bytes come from the network's graph (`steplab.costs`), times from a study's tables. A `Roofline` holds all
that a chart needs: the roofs (`ceiling`), the points with their names, and the notes to print below. A chart is drawn
by `steplab.analysis.roofline.chart.figure(roofline)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from steplab.costs.network import BYTES, LayerCost, NetworkCost, update
from steplab.costs.roofs import Bound, Ceiling, Limit, Work, limit
from steplab_worker.phases import LAYERED, PASSES
from steplab_worker.phases import Pass as PhasePass

Pass = PhasePass | Literal["kernel"]
TOLERANCE = 0.10  # a point is above its roof only if it is so by more than noise
SHORTEST_S = 50e-6  # shorter times are mostly the clock's and the hooks' own


@dataclass(frozen=True)
class RooflinePoint:
    """One layer, phase or kernel: what it does, how fast it did it, how fast it could have been.

    `flops_per_s` and `share_of_roof` are none where nothing was measured; `attainable` is the roof above the point.
    """

    layer: str  # or the name of a phase (t_f, t_b, t_u) or kernel
    kind: str
    of: Pass
    flops: float
    bytes: float
    seconds: float | None
    attainable: float
    roof: str  # what the roof is made of: "compute", or the level of memory that limits
    bound: Bound

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.bytes if self.bytes else math.inf

    @property
    def flops_per_s(self) -> float | None:
        """What was reached."""
        return self.flops / self.seconds if self.seconds else None

    @property
    def share_of_roof(self) -> float | None:
        """What was reached of what is attainable; 1 is the roof."""
        reached = self.flops_per_s
        return None if reached is None else reached / self.attainable

    @property
    def judged(self) -> bool:
        """Whether the time is long enough to say anything; a GPU times its kernels itself, without hooks."""
        return self.seconds is not None and (self.of == "kernel" or self.seconds >= SHORTEST_S)

    @property
    def above(self) -> bool:
        """Whether the point lies above its roof by more than noise, which cannot be: then a roof or a time is wrong."""
        share = self.share_of_roof
        return share is not None and self.judged and share > 1.0 + TOLERANCE


@dataclass(frozen=True)
class Roofline:
    """The points of one configuration under the roofs that bound it."""

    title: str
    machine: str
    ceiling: Ceiling
    points: tuple[RooflinePoint, ...]
    notes: tuple[str, ...] = ()

    @property
    def estimated(self) -> bool:
        """Whether no point has a measured time."""
        return all(point.seconds is None for point in self.points)


@dataclass(frozen=True)
class Times:
    """Measured seconds of one configuration: by layer and pass, and by phase; what was not measured is left out."""

    layers: Mapping[tuple[str, Pass], float]
    phases: Mapping[str, float]

    @property
    def trained(self) -> bool:
        """Whether there was a backward pass."""
        return "t_b" in self.phases or any(of == "backward" for _, of in self.layers)


def times_of(trials: pd.DataFrame, layers: pd.DataFrame, accumulate: int = 1) -> Times:
    """Medians over the replicates, ranks and iterations of one configuration's rows."""
    mine = layers[layers["trial"].isin(trials["trial"])]
    medians = mine.groupby("layer", sort=False)[list(LAYERED)].median()
    by_layer: dict[tuple[str, Pass], float] = {}
    for name, row in medians.iterrows():
        by_layer[str(name), "forward"], by_layer[str(name), "backward"] = float(row["t_f"]), float(row["t_b"])
    phases = {name: float(trials[name].median()) for name in PASSES if name in trials}
    # One update serves all iterations of an accumulation; tables hold its share in one iteration.
    phases["t_u"] = phases.get("t_u", math.nan) * accumulate
    return Times(by_layer, {name: value for name, value in phases.items() if value > 0.0})


def placed(
    cost: NetworkCost, times: Times, ceiling: Ceiling, optimizer: str = "sgd", shards: int = 1
) -> list[RooflinePoint]:
    """The points that have a measured time, layer by layer, then phase by phase; a worker updates its shard alone."""
    # An inference touches its weights only; what it computes on the way is gone at once.
    size = footprint(cost) if times.trained else float(cost.gradient_bytes)
    every = _layers(cost, ceiling, size, times.layers)
    return [point for point in every if point.seconds] + _phases(
        cost, times, ceiling, size, _updates(cost, optimizer, shards)
    )


def estimated(cost: NetworkCost, ceiling: Ceiling) -> list[RooflinePoint]:
    """The points of a network that nobody has run: where the roof is for each layer's two passes."""
    return _layers(cost, ceiling, footprint(cost), {})


def unplaced(cost: NetworkCost, times: Times) -> list[str]:
    """Timed layers that the graph does not know, or whose kind has no count."""
    known = {layer.name for layer in cost.layers if layer.totals}
    return sorted({layer for layer, _ in times.layers} - known)


def above(points: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """The points that contradict their roof."""
    return [point for point in points if point.above]


def _layers(
    cost: NetworkCost, ceiling: Ceiling, size: float, seconds: Mapping[tuple[str, Pass], float]
) -> list[RooflinePoint]:
    points = []
    for layer in cost.layers:
        for of, work in _works(layer):
            # Without arithmetic (flatten, concatenation) there is nothing to hold against a rate of arithmetic.
            if work.flops:
                best = limit(work, ceiling, size)
                points.append(_point(layer.name, layer.kind, of, work, best, seconds.get((layer.name, of))))
    return points


def footprint(cost: NetworkCost) -> float:
    """Bytes that a training step touches: weights, their gradients, activations."""
    return 2.0 * cost.gradient_bytes + cost.totals.activation_bytes


def _works(layer: LayerCost) -> list[tuple[Pass, Work]]:
    totals = layer.totals
    if totals is None:
        return []
    weights = BYTES * layer.parameters
    forward = Work(totals.forward_flops, totals.forward_bytes, min(weights, totals.forward_bytes))
    # The weights are read, their gradients written; what else is read may still be in a cache, which raises the roof.
    backward = Work(totals.backward_flops, totals.backward_bytes, min(2 * weights, totals.backward_bytes))
    return [("forward", forward), ("backward", backward)]


def _point(name: str, kind: str, of: Pass, work: Work, best: Limit, seconds: float | None) -> RooflinePoint:
    return RooflinePoint(name, kind, of, work.flops, work.bytes, seconds, best.flops_per_s, best.roof, best.bound)


def _phases(cost: NetworkCost, times: Times, ceiling: Ceiling, size: float, updates: list[Work]) -> list[RooflinePoint]:
    points = []
    for name, of in PASSES.items():
        works = updates if of == "update" else _of_pass(cost, of)
        if name in times.phases and any(work.flops for work in works):
            points.append(_phase(name, of, works, ceiling, size, times.phases[name]))
    return points


def _of_pass(cost: NetworkCost, of: Pass) -> list[Work]:
    return [work for layer in cost.layers for pass_, work in _works(layer) if pass_ == of]


def _updates(cost: NetworkCost, optimizer: str, shards: int) -> list[Work]:
    operation = update(-(-cost.parameters // shards), optimizer)
    moved = operation.bytes_read + operation.bytes_written
    return [Work(operation.flops, moved, cold=moved)]


def _phase(name: str, of: Pass, works: Sequence[Work], ceiling: Ceiling, size: float, seconds: float) -> RooflinePoint:
    """A phase takes at least the sum of what its layers take: they run one after the other."""
    limits = [limit(work, ceiling, size) for work in works]
    least = sum(bound.seconds for bound in limits)
    shares: dict[str, float] = {}
    for bound in limits:
        shares[bound.roof] = shares.get(bound.roof, 0.0) + bound.seconds
    whole = Work(sum(work.flops for work in works), sum(work.bytes for work in works))
    roof = max(shares, key=lambda name: shares[name])
    return _point(name, "phase", of, whole, Limit(least, whole.flops / least, roof), seconds)
