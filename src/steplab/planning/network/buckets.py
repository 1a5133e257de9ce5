"""Which gradients travel together, and when: in the order in which backward makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steplab.core.errors import InputError
from steplab.core.framework import ExchangeHabit
from steplab.core.resolution import Resolved, graph_of
from steplab_worker.graph import Graph, GraphError, size

ITEM_BYTES = 4  # of a gradient
MEBIBYTE = 2.0**20
FIRST_BUCKET, BUCKET = 1 * MEBIBYTE, 25 * MEBIBYTE  # PyTorch's, where it is not told a size


def exchanged_graph(resolved: Resolved) -> Graph:
    """The network whose gradients a configuration exchanges; one sentence if it is not known by its layers."""
    try:
        graph = graph_of(resolved)
    except GraphError as error:  # records are other people's
        raise InputError(str(error), where=resolved.network) from error
    if graph is None:
        raise InputError("a network of one's own has no graph, so its gradients are not known by size")
    return graph


@dataclass(frozen=True)
class Gradient:
    """An array's gradient: its bytes, and the share of backward after which it is there."""

    layer: str
    bytes: float
    ready: float


@dataclass(frozen=True)
class Bucket:
    """Gradients that are exchanged as one message, when the last of them is there."""

    bytes: float
    ready: float


def gradients(graph: Graph, backward: Mapping[str, float]) -> list[Gradient]:
    """The gradients of a network, last layers first; `backward` has the seconds of each layer."""
    whole = sum(backward.get(layer.name, 0.0) for layer in graph.layers)
    passed, exchanged = 0.0, []
    for at, layer in enumerate(reversed(graph.layers), start=1):
        passed += backward.get(layer.name, 0.0)
        ready = passed / whole if whole > 0 else at / len(graph.layers)
        shapes = reversed(list(layer.weights.values()))
        exchanged += [Gradient(layer.name, float(ITEM_BYTES * size(shape)), ready) for shape in shapes]
    return exchanged


def buckets(exchanged: Sequence[Gradient], habit: ExchangeHabit, bucket_mb: float = 0.0) -> list[Bucket]:
    """The messages that a framework makes of gradients; a size of 0 leaves it to the framework."""
    if habit.grouping == "arrays":
        grouped = [[gradient] for gradient in exchanged]
    elif habit.grouping == "whole":
        grouped = [list(exchanged)] if exchanged else []
    else:
        grouped = _full(exchanged, [bucket_mb * MEBIBYTE] if bucket_mb else [FIRST_BUCKET, BUCKET])
    messages = [Bucket(sum(part.bytes for part in group), max(part.ready for part in group)) for group in grouped]
    return messages if habit.overlaps else [Bucket(message.bytes, 1.0) for message in messages]


def _full(exchanged: Sequence[Gradient], limits: Sequence[float]) -> list[list[Gradient]]:
    """A bucket is full as soon as it has reached its size; the last size holds for all further ones."""
    grouped: list[list[Gradient]] = []
    held, limit = 0.0, 0.0
    for gradient in exchanged:
        if held >= limit:
            limit = limits[min(len(grouped), len(limits) - 1)]
            held = 0.0
            grouped.append([])
        grouped[-1].append(gradient)
        held += gradient.bytes
    return grouped


def buffer_bytes(graph: Graph) -> float:
    """What is not learned but kept alike: running means of batch normalisation."""
    return float(ITEM_BYTES * sum(size(shape) for layer in graph.layers for shape in layer.buffers.values()))
