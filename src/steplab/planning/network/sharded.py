"""The step of workers that divide the parameters among them: what gathering and scattering adds to compute.

PyTorch's FSDP2 with its defaults gathers what is in no block once, a block before it runs, in both passes, and scatters
a block's gradients when they are there (Y. Zhao et al., "PyTorch FSDP", VLDB 2023; ZeRO, SC 2020, stage 3). On GPUs the
next block is gathered while one computes; on CPUs its collectives return when they are done, so nothing hides them. In
JAX every weight is gathered for itself, and again in backward where a gradient needs it. Profiles measure an
all-reduce; on a ring it is a reduce-scatter and an all-gather one after the other (P. Patarasuk, X. Yuan, J. Parallel
Distrib. Comput. 69, 2009): each is half of it here. Collectives wait for each other; a worker updates its part of the
parameters. How long sharded workers of one host compute and update is measured, or else taken from workers that keep
all parameters, with more doubt.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.core.trial import SHARDED
from steplab.costs.exchange import block_parameters
from steplab.costs.network import BYTES, NetworkCost, cost
from steplab.costs.operation import Workload, from_graph, learning
from steplab.planning.network.buckets import exchanged_graph
from steplab.planning.network.compute import Compute
from steplab.planning.network.step import USUAL, Layout, Method, StepPrediction, predict_step, with_interval
from steplab.planning.network.wires import Exchange, Wires
from steplab_worker.graph import Graph, size

# Relative errors of the method: no sharded step of several hosts was compared with it. With FSDP over one host, passes
# took 1.4 times and the update of half of the parameters twice as long as with whole ones (docs/network.md).
DOUBT, DOUBT_UNSEEN = 0.25, 0.5
REST = ""  # what is in no block
WHOLE = "network"  # the one block of frameworks that gather every weight for itself
ADDED = ("embedding", "position_embedding", "class_token")  # looked up or added: no other gradient needs their weight
SPREAD = ("layer_norm", "scale")  # whose weight is kept as it was spread over the batch, unless little is kept


@dataclass(frozen=True)
class Run:
    """Layers that follow each other, of one block or of none, and their seconds."""

    block: str
    forward: float
    backward: float


def predict_sharded(compute: Compute, wires: Wires, layout: Layout, method: Method = USUAL) -> StepPrediction:
    """The iteration of sharded workers, with a 90 % interval."""
    framework = catalogue.framework(compute.resolved.framework)
    if SHARDED not in framework.strategies:
        raise InputError(f"{framework.name} has no strategy {SHARDED!r}")
    if layout.workers == 1:  # keeps all parameters
        return predict_step(compute, wires, layout, method)
    graph = exchanged_graph(compute.resolved)
    doubt = DOUBT_UNSEEN if compute.sharded_update is None else DOUBT
    wider = replace(method.calibration, doubt=max(doubt, method.calibration.doubt))
    method = replace(method, calibration=wider)
    return with_interval(_ShardedParts(compute, graph, wires, layout, method), compute, method)


def ended(
    runs: Sequence[Run], gathers: Mapping[str, float], scatters: Mapping[str, float], *, overlaps: bool
) -> float:  # fmt: skip
    """Seconds until a forward and a backward pass and all their collectives are done, beside compute if it overlaps.

    >>> block = Run("b", 1.0, 2.0)
    >>> ended([block], {"b": 0.5}, {"b": 0.25}, overlaps=False)
    4.25
    """
    wire = _Wire()
    now = wire.send(0.0, gathers.get(REST, 0.0))
    now = _pass(now, [(run.block, run.forward) for run in runs], gathers, {}, wire, overlaps=overlaps)
    now = _pass(now, [(run.block, run.backward) for run in reversed(runs)], gathers, scatters, wire, overlaps=overlaps)
    return max(now, wire.send(now, scatters.get(REST, 0.0)))


class _Wire:
    """One collective after the other, in the order in which they are asked for."""

    def __init__(self) -> None:
        self.free = 0.0

    def send(self, ready: float, seconds: float) -> float:
        """When a collective that is ready then is done."""
        self.free = max(ready, self.free) + seconds
        return self.free


def _pass(
    now: float, runs: Sequence[tuple[str, float]], gathers: Mapping[str, float], scatters: Mapping[str, float],
    wire: _Wire, *, overlaps: bool,
) -> float:  # fmt: skip
    """When a pass over runs has computed; their scatters may still be under way."""
    blocks = [block for block, _ in runs if block]
    there: dict[str, float] = {}
    for block, seconds in runs:
        if block:
            if block not in there:
                there[block] = wire.send(now, gathers.get(block, 0.0))
            now = max(now, there[block])
        ahead = next((other for other in blocks if other not in there), None)
        if overlaps and ahead:
            there[ahead] = wire.send(now, gathers.get(ahead, 0.0))
        now += seconds
        if block in scatters and block:
            done = wire.send(now, scatters[block])
            now = now if overlaps else done
    return now


class _ShardedParts:
    """A layout's collectives, and the step that they make."""

    def __init__(self, compute: Compute, graph: Graph, wires: Wires, layout: Layout, method: Method) -> None:
        self.compute, self.layout, self.method, self.wires = compute, layout, method, wires
        workload = from_graph(graph, compute.resolved.batch_size)
        counted = cost(workload)
        by_block = catalogue.framework(compute.resolved.framework).exchange.grouping == "buckets"
        on_gpu = compute.resolved.device == "cuda"
        self.overlaps = by_block and on_gpu and method.overlap
        self.runs = _runs(counted, workload, compute.layers) if by_block else [Run(WHOLE, 1.0, 1.0)]
        parts = _blocks(counted, workload) if by_block else _arrays(workload, compute.resolved.recompute)
        self.collectives = {block: [self._half(bytes_) for bytes_ in each] for block, each in parts.items()}
        ranks = layout.workers // layout.machines
        slower = 1.0 if ranks in compute.beside else compute.sharded_slower
        self.slowdown = slower * compute.slowdown(ranks, layout.machines, 1)
        self.known = compute.knows(ranks)

    def _half(self, bytes_: float) -> Exchange:
        factor = self.method.calibration.wires / 2
        return self.wires.exchange(bytes_, self.layout.workers, self.layout.nodes).scaled(factor, factor)

    def wire_ratios(self) -> tuple[float, float]:
        """The ends of the collectives' interval, as shares of their sum."""
        every = list(itertools.chain.from_iterable(self.collectives.values()))
        total = sum(each.seconds for each in every)
        return (sum(each.low for each in every) / total, sum(each.high for each in every) / total) if total else (1, 1)

    def step(self, compute: float = 1.0, wires: float = 1.0) -> StepPrediction:
        """The iteration with compute and wires so many times as long."""
        own, workers = self.compute, self.layout.workers
        slow = self.slowdown * compute * self.method.calibration.compute
        forward, backward = own.forward * slow, own.backward * slow
        update = own.update * slow / workers if own.sharded_update is None else own.sharded_update * compute
        runs = [Run(run.block, run.forward * forward, run.backward * backward) for run in self.runs]
        seconds = {block: wires * sum(each.seconds for each in parts) for block, parts in self.collectives.items()}
        whole = ended(runs, seconds, seconds, overlaps=self.overlaps)
        times = {block: 2 if block == REST else 3 for block in seconds}
        sent = [(each, times[block]) for block, parts in self.collectives.items() for each in parts]
        return StepPrediction(
            layout=self.layout, seconds=whole + update, low=whole, high=whole,
            alone=own.forward + own.backward + own.update, compute=forward + backward, contention=0.0,
            exposed=max(0.0, whole - forward - backward), update=update,
            in_flight=sum(times[block] * seconds[block] for block in seconds),
            latency=wires * sum(number * each.latency for each, number in sent),
            buckets=sum(number for _, number in sent), inside=self.known and all(each.inside for each, _ in sent),
        )  # fmt: skip


def _blocks(counted: NetworkCost, workload: Workload) -> dict[str, list[float]]:
    """The bytes of what is gathered as one, by block."""
    return {block: [float(bytes_)] for block, bytes_ in block_parameters(counted, workload).items() if bytes_}


def _arrays(workload: Workload, recompute: bool) -> dict[str, list[float]]:
    """The bytes of every weight: those that backward needs again, and the rest."""
    again = gathered_again(workload, recompute)
    weights = {weight.name: weight.shape for op in workload.operations for weight in op.weights}
    arrays: dict[str, list[float]] = {REST: [], WHOLE: []}
    for name, shape in weights.items():
        arrays[WHOLE if name in again else REST].append(float(BYTES * size(shape)))
    return arrays


def gathered_again(workload: Workload, recompute: bool) -> set[str]:
    """The weights that the gradient of an input is computed with, and those that blocks are computed once more with."""
    learns, once = learning(workload.operations), ADDED if recompute else ADDED + SPREAD
    needing = [op for op in workload.operations if op.kind not in once and any(learns[name] for name in op.inputs)]
    needed = {weight.name for op in needing for weight in op.weights if weight.role != "bias"}
    for block, operations in itertools.groupby(workload.operations, lambda op: op.block):
        weights = [weight for op in operations for weight in op.weights if block and recompute]
        # What is added last is in the block's output, which is there.
        needed |= {weight.name for weight in weights if weight.role != "bias" or weight != weights[-1]}
    return needed


def _runs(counted: NetworkCost, workload: Workload, backward: Mapping[str, float]) -> list[Run]:
    """Shares of both passes by runs of layers: measured of backward where somebody did, else by FLOPs."""
    flops = {layer.name: layer.totals for layer in counted.layers if layer.totals is not None}
    forward = {name: float(totals.forward_flops) for name, totals in flops.items()}
    back = dict(backward) or {name: float(totals.backward_flops) for name, totals in flops.items()}
    runs = []
    for block, operations in itertools.groupby(workload.operations, lambda op: op.block):
        names = [op.name for op in operations]
        runs.append(Run(block, _share(forward, names), _share(back, names)))
    return runs


def _share(seconds: Mapping[str, float], names: Sequence[str]) -> float:
    whole = sum(seconds.values())
    return sum(seconds.get(name, 0.0) for name in names) / whole if whole else 0.0
