"""The step of several hosts, predicted: compute of one host, messages of the framework, wires of a profile.

An optimiser's step is k iterations of forward and backward. The last one exchanges gradients while backward runs
(`schedule`), then updates. Ranks wait for the slowest one. Nothing here is fitted to trials of several hosts, unless a
`Calibration` is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.core.framework import ExchangeHabit
from steplab.core.units import seconds as shown
from steplab.costs.network import cost
from steplab.costs.operation import from_graph
from steplab.planning.network.buckets import Bucket, Gradient, buckets, buffer_bytes, exchanged_graph, gradients
from steplab.planning.network.compute import Compute
from steplab.planning.network.profile import Profile
from steplab.planning.network.schedule import Cores, Message, Timeline, simulate
from steplab.planning.network.wires import Exchange, Wires
from steplab_worker.graph import Graph
from steplab_worker.phases import WORDS

MODEL_DOUBT = 0.12  # relative error of the method itself, on the cells that it was tuned on (docs/network.md)
NORMAL_90 = 1.645
POWERS = (1, 2, 4, 8, 16, 32, 64)  # accumulations that are looked at
LARGEST_K = POWERS[-1]


@dataclass(frozen=True)
class Layout:
    """How a step is to be run."""

    workers: int
    nodes: int
    accumulate: int = 1
    bucket_mb: float = 0.0
    one_machine: bool = False  # whether all hosts share one machine's CPUs

    @property
    def machines(self) -> int:
        """Hosts with CPUs of their own."""
        return 1 if self.one_machine else self.nodes


@dataclass(frozen=True)
class Calibration:
    """Factors on compute and on wires, learned from a few trials of several hosts; without any, 1."""

    compute: float = 1.0
    wires: float = 1.0
    doubt: float = MODEL_DOUBT


@dataclass(frozen=True)
class StepPrediction:
    """Seconds of an iteration and the parts that they are the sum of, the interval, and what was outside."""

    layout: Layout
    seconds: float
    low: float
    high: float
    alone: float  # an iteration of one worker alone
    compute: float  # the same beside other ranks of its machine, the slowest rank waited for
    contention: float  # what exchanges take from backward's CPUs
    exposed: float  # exchange that nothing hides
    update: float
    in_flight: float  # exchange, hidden or not
    latency: float  # of the exchanges, one after the other
    buckets: int
    inside: bool

    @property
    def speedup(self) -> float:
        """How many times as many samples a second as one worker."""
        return self.layout.workers * self.alone / self.seconds

    @property
    def why(self) -> str:
        """What dominates, in a sentence."""
        if not self.in_flight:
            return "compute is all there is: nothing is exchanged that this profile knows the time of"
        share, exposed = self.exposed / self.seconds, shown(self.exposed)
        if share >= 0.5:
            cause = "latency" if self.latency > self.in_flight / 2 else WORDS["t_move"]
            return f"the exchange dominates: {share:.0%} of the iteration ({exposed}) is exposed, mostly {cause}"
        crowd = (self.compute - self.alone) / self.seconds
        if crowd >= 0.25 and crowd > share:
            return f"ranks that share CPUs or wait for the slowest dominate the loss: {crowd:.0%} of the iteration"
        hidden = max(0.0, self.in_flight - self.exposed)
        rest = f"{shown(hidden)} are hidden" if hidden > self.in_flight / 100 else "nothing of it is hidden"
        return f"compute dominates: {exposed} of exchange are exposed ({share:.0%}), {rest}"


@dataclass(frozen=True)
class Method:
    """What a prediction takes into account; the parts can be left out to see what they bring."""

    overlap: bool = True
    bucket_order: bool = True
    cpu: bool = True
    calibration: Calibration = field(default_factory=Calibration)


USUAL = Method()


def expect_same_framework(profile: Profile, compute: Compute) -> None:
    """Another framework's exchange tells nothing of this one's."""
    own = compute.resolved.framework
    if profile.framework and profile.framework != own:
        what = f"the profile {profile.name!r} is of {profile.framework}'s exchange, the study of {own}"
        raise InputError(what, hint=f"measure it with `steplab network --framework {own}`")


def predict_step(compute: Compute, wires: Wires, layout: Layout, method: Method = USUAL) -> StepPrediction:
    """The iteration of a layout, with a 90 % interval."""
    graph = exchanged_graph(compute.resolved)
    return with_interval(_Parts(compute, graph, wires, layout, method), compute, method)


class StepParts(Protocol):
    """What makes a step, and can make it with compute and wires so many times as long."""

    def step(self, compute: float = 1.0, wires: float = 1.0) -> StepPrediction:
        """The iteration, without its interval."""

    def wire_ratios(self) -> tuple[float, float]:
        """The ends of the exchanges' interval, as shares of their sum."""


def with_interval(parts: StepParts, compute: Compute, method: Method) -> StepPrediction:
    """The step of its parts, with a 90 % interval from their doubts and the method's own."""
    step = parts.step()
    doubts = [method.calibration.doubt]
    doubts.append(math.log(parts.step(compute=math.exp(compute.doubt)).seconds / step.seconds))
    low, high = parts.wire_ratios()
    shorter, longer = (parts.step(wires=ratio).seconds / step.seconds for ratio in (low, high))
    down, up = (math.exp(math.hypot(NORMAL_90 * math.hypot(*doubts), math.log(ratio))) for ratio in (shorter, longer))
    return replace(step, low=step.seconds / down, high=step.seconds * up)


def hiding_k(compute: Compute, wires: Wires, layout: Layout, method: Method = USUAL, share: float = 0.1) -> int:
    """The smallest accumulation, a power of 2, whose iteration is at most so much longer than without an exchange."""
    least = predict_step(compute, wires, replace(layout, accumulate=LARGEST_K), method).seconds
    for k in POWERS:
        if predict_step(compute, wires, replace(layout, accumulate=k), method).seconds <= (1 + share) * least:
            return k
    return LARGEST_K


@dataclass(frozen=True)
class StepMessages:
    """Undisturbed compute of an iteration in seconds, and what is sent: messages, and latency and moving of buffers."""

    forward: float
    backward: float
    update: float
    messages: tuple[Message, ...]
    broadcast: tuple[float, float]


def step_messages(compute: Compute, wires: Wires, layout: Layout, method: Method = USUAL) -> StepMessages:
    """What a schedule is made of."""
    graph = exchanged_graph(compute.resolved)
    parts = _Parts(compute, graph, wires, layout, method)
    slow = parts.slowdown * method.calibration.compute
    messages = parts.messages(compute.backward * slow)
    copied = parts.broadcast
    broadcast = (copied.latency / 2, (copied.seconds - copied.latency) / 2)
    return StepMessages(
        compute.forward * slow, compute.backward * slow, compute.update * slow, tuple(messages), broadcast
    )


class _Parts:
    """A layout's messages, and the step that they make."""

    def __init__(self, compute: Compute, graph: Graph, wires: Wires, layout: Layout, method: Method) -> None:
        self.compute, self.layout, self.method = compute, layout, method
        self.habit = _habit(compute, method)
        exchanged = gradients(graph, compute.layers or _by_flops(graph, compute.resolved.batch_size))
        self.buckets = _bucketed(exchanged, self.habit, layout, method)
        factor = method.calibration.wires
        self.exchanges = [_times(wires.exchange(b.bytes, layout.workers, layout.nodes), factor) for b in self.buckets]
        copied = buffer_bytes(graph) if self.habit.buffers else 0.0
        # A broadcast crosses each line once, an all-reduce about twice: half of this.
        self.broadcast = _times(wires.exchange(copied, layout.workers, layout.nodes), factor)
        ranks = layout.workers // layout.machines
        self.slowdown = compute.slowdown(ranks, layout.machines, layout.accumulate)
        self.inside = compute.knows(ranks) and all(each.inside for each in self.exchanges)
        there = compute.cpus / ranks if method.cpu else math.inf
        self.cores = Cores(there, float(compute.threads))

    def wire_ratios(self) -> tuple[float, float]:
        """The ends of the exchanges' interval, as shares of their sum."""
        total = sum(each.seconds for each in self.exchanges)
        if not total:
            return 1.0, 1.0
        return sum(each.low for each in self.exchanges) / total, sum(each.high for each in self.exchanges) / total

    def step(self, compute: float = 1.0, wires: float = 1.0) -> StepPrediction:
        """The iteration with compute and wires so many times as long."""
        own, layout, k = self.compute, self.layout, self.layout.accumulate
        slow = self.slowdown * compute * self.method.calibration.compute
        forward, backward, update = own.forward * slow, own.backward * slow, own.update * slow
        timeline = self._simulated(backward, wires)
        copying = self.broadcast.seconds / 2 * wires
        exposed = timeline.exposed + copying
        contention = max(0.0, timeline.computed - backward)
        whole = k * (forward + backward) + contention + exposed + update
        return StepPrediction(
            layout=layout, seconds=whole / k, low=whole / k, high=whole / k,
            alone=own.forward + own.backward + own.update / k,
            compute=forward + backward, contention=contention / k, exposed=exposed / k, update=update / k,
            in_flight=(timeline.in_flight + copying) / k,
            latency=sum(each.latency for each in self.exchanges) * wires / k,
            buckets=len(self.buckets), inside=self.inside,
        )  # fmt: skip

    def messages(self, backward: float, wires: float = 1.0) -> list[Message]:
        """The buckets on wires so many times as slow, in a backward pass of so many seconds."""
        return [
            Message(bucket.ready * backward, each.latency * wires, (each.seconds - each.latency) * wires,
                    each.cpu_seconds)
            for bucket, each in zip(self.buckets, self.exchanges, strict=True)
        ]  # fmt: skip

    def _simulated(self, backward: float, wires: float) -> Timeline:
        return simulate(backward, self.messages(backward, wires), self.habit.in_flight, self.cores)


def _times(exchange: Exchange, factor: float) -> Exchange:
    return exchange.scaled(factor, factor)


def _habit(compute: Compute, method: Method) -> ExchangeHabit:
    habit = catalogue.framework(compute.resolved.framework).exchange
    return habit if method.overlap else replace(habit, overlaps=False)


def _bucketed(exchanged: list[Gradient], habit: ExchangeHabit, layout: Layout, method: Method) -> list[Bucket]:
    """The messages; without bucket order, those of the first layers are made up first, as parameters are listed."""
    return buckets(exchanged if method.bucket_order else exchanged[::-1], habit, layout.bucket_mb)


def _by_flops(graph: Graph, batch: int) -> Mapping[str, float]:
    """Where nobody measured layers, their share of backward is that of their FLOPs."""
    layers = cost(from_graph(graph, batch)).layers
    return {layer.name: float(layer.totals.backward_flops) for layer in layers if layer.totals}
