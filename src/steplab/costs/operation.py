"""A network at one batch size as a list of operations: what the counting functions see.

Built-in networks, ONNX files and users' PyTorch modules all become a `Workload`, so that one table counts them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steplab_worker.graph import INPUT, Graph, Layer, Shape


@dataclass(frozen=True)
class Weight:
    """A trainable array: its part in the operation (`weight`, `bias`, …), its name in the network, its shape."""

    role: str
    name: str
    shape: Shape


@dataclass(frozen=True)
class Operation:
    """One layer at one batch size; all shapes include the batch."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    input_shapes: tuple[Shape, ...]
    output_shape: Shape
    options: Mapping[str, Any] = field(default_factory=dict)
    weights: tuple[Weight, ...] = ()
    buffers: tuple[Shape, ...] = ()
    block: str = ""  # that it is part of

    def weight(self, role: str) -> Shape | None:
        """The shape of the weight with that part, if the operation has it."""
        return next((weight.shape for weight in self.weights if weight.role == role), None)


@dataclass(frozen=True)
class Workload:
    """A network at one batch size; `declared` may name weights that no operation uses, to be counted as well."""

    name: str
    batch: int
    input_shape: Shape
    operations: tuple[Operation, ...]
    declared: tuple[Weight, ...] = ()
    loss: str = "cross-entropy"


def from_graph(graph: Graph, batch: int) -> Workload:
    """A built-in network at a batch size."""
    shapes = {name: (batch, *shape) for name, shape in graph.shapes().items()}
    weights = {(layer.name, role): shape for layer in graph.layers for role, shape in layer.weights.items()}
    operations = tuple(_operation(layer, shapes, weights) for layer in graph.layers)
    return Workload(graph.name, batch, graph.input_shape, operations, loss=graph.loss)


def _operation(layer: Layer, shapes: Mapping[str, Shape], known: Mapping[tuple[str, str], Shape]) -> Operation:
    """A layer; a weight that it is tied to has the name that it has where it is kept."""
    weights = tuple(Weight(role, ".".join(key), known[key]) for role, key in layer.weight_keys.items())
    return Operation(
        layer.name,
        layer.kind,
        layer.inputs,
        tuple(shapes[name] for name in layer.inputs),
        shapes[layer.name],
        layer.options,
        weights,
        tuple(layer.buffers.values()),
        layer.block,
    )


def learning(operations: tuple[Operation, ...]) -> dict[str, bool]:
    """By name: whether something learnable stands before that output, so that its gradient is computed."""
    learnable = {INPUT: False}
    for operation in operations:
        learnable[operation.name] = bool(operation.weights) or any(map(learnable.get, operation.inputs))
    return learnable


def uses(operations: tuple[Operation, ...]) -> dict[str, int]:
    """By name: how many operations take that output."""
    counted: dict[str, int] = {}
    for operation in operations:
        for name in operation.inputs:
            counted[name] = counted.get(name, 0) + 1
    return counted
