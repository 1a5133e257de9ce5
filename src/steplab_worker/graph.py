"""The neutral description of a network: layers with shapes, from which every framework builds its own.

A graph holds no framework and no arrays; what each kind of layer computes is defined in `steplab_worker.layers`.
Losses: `cross-entropy` is the mean over the batch of −log softmax(output)[label]; `reconstruction` is the mean over
all elements of the batch of (output − flattened input)². Of sequences, whose labels are one per position: `next-token`
is the cross-entropy's mean over all positions of the batch, `masked-token` that over those whose label is not `UNTOLD`.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from steplab_worker.layers import ACTIVATIONS, KINDS, RANDOM, GraphError, Padding, Shape, Window, same_pads, size

__all__ = [
    "ACTIVATIONS",
    "INPUT",
    "LOSSES",
    "UNTOLD",
    "Builder",
    "Graph",
    "GraphError",
    "Layer",
    "Segment",
    "Shape",
    "same_pads",
    "size",
]

INPUT = "input"
LOSSES = ("cross-entropy", "reconstruction", "next-token", "masked-token")
UNTOLD = -100  # the label of a position that is not to be predicted, as PyTorch has it


@dataclass(frozen=True)
class Layer:
    """One layer: where its inputs come from, the shape it gives, what it learns."""

    name: str
    kind: str
    inputs: Tuple[str, ...]
    shape: Shape
    options: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, Shape] = field(default_factory=dict)
    buffers: Mapping[str, Shape] = field(default_factory=dict)
    block: str = ""  # that it is part of: what is recomputed, or sharded, as one

    @property
    def parameters(self) -> int:
        """How many trainable numbers the layer has."""
        return sum(size(shape) for shape in self.weights.values())

    @property
    def weight_keys(self) -> Dict[str, Tuple[str, str]]:
        """Where the weights that it uses are kept, (layer, weight): its own, and the one that it is tied to."""
        keys = {name: (self.name, name) for name in self.weights}
        return dict(keys, weight=(self.options["to"], "weight")) if self.kind == "tied_dense" else keys


@dataclass(frozen=True)
class Segment:
    """Layers that follow each other: those of a block, or those between two blocks.

    `inputs` are the values that it takes from before, `outputs` those of its own that are needed after it.
    """

    block: str  # empty between blocks
    layers: Tuple[Layer, ...]
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """A network: its layers in an order in which they can be computed."""

    name: str
    input_shape: Shape
    layers: Tuple[Layer, ...]
    loss: str = "cross-entropy"

    @property
    def parameters(self) -> int:
        """How many trainable numbers the network has."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def output_shape(self) -> Shape:
        """What the last layer gives for one sample."""
        return self.layers[-1].shape

    def shapes(self) -> Dict[str, Shape]:
        """The output shape of every layer, and of the input, by name."""
        return dict({INPUT: self.input_shape}, **{layer.name: layer.shape for layer in self.layers})

    def shape_of(self, name: str) -> Shape:
        """The output shape of the layer of that name, or of the graph's input."""
        return self.shapes()[name]

    @property
    def has_attention(self) -> bool:
        """Whether some layer is an attention, for which frameworks may have several kernels."""
        return any(layer.kind in ("attention", "self_attention") for layer in self.layers)

    @property
    def has_blocks(self) -> bool:
        """Whether some layers form a block."""
        return any(layer.block for layer in self.layers)

    def segments(self) -> List[Segment]:
        """The layers block by block, in their order."""
        runs = [(block, tuple(run)) for block, run in itertools.groupby(self.layers, lambda layer: layer.block)]
        segments: List[Segment] = []
        needed = {self.layers[-1].name}
        for block, layers in reversed(runs):
            own = [layer.name for layer in layers]
            taken = {name for layer in layers for name in layer.inputs} - set(own)
            outputs = tuple(name for name in own if name in needed)
            segments.insert(0, Segment(block, layers, tuple(sorted(taken)), outputs))
            needed |= taken
        return segments

    def without_dropout(self) -> "Graph":
        """The same graph with every random layer at rate 0, so that frameworks can be compared number by number."""
        layers = tuple(
            replace(layer, options=dict(layer.options, rate=0.0)) if layer.kind in RANDOM else layer
            for layer in self.layers
        )
        return replace(self, layers=layers)


class Builder:
    """Builds a graph layer by layer; each method returns the name of the layer it added."""

    def __init__(self, name: str, input_shape: Sequence[int], loss: str = "cross-entropy"):
        if loss not in LOSSES:
            raise GraphError("unknown loss %r" % loss)
        if not input_shape or min(input_shape) < 1:
            raise GraphError("%s: %r is no shape of an input" % (name, tuple(input_shape)))
        self.name, self.input_shape, self.loss = name, tuple(input_shape), loss
        self.layers: Dict[str, Layer] = {}
        self.last = INPUT
        self.current_block = ""

    def graph(self) -> Graph:
        """The finished graph."""
        return Graph(self.name, self.input_shape, tuple(self.layers.values()), self.loss)

    @contextlib.contextmanager
    def block(self, name: str) -> Iterator[None]:
        """The layers that are added meanwhile form a block of that name."""
        self.current_block = name
        try:
            yield
        finally:
            self.current_block = ""

    def shape(self, name: str) -> Shape:
        """The shape that a layer, or the input, gives."""
        return self.input_shape if name == INPUT else self.layers[name].shape

    def add(self, kind: str, name: str, inputs: Union[str, Sequence[str], None] = None, **options: Any) -> str:
        """Add a layer of a kind; by default its input is the layer added before it."""
        if name in self.layers or name == INPUT:
            raise GraphError("two layers are called %r" % name)
        if kind not in KINDS:
            raise GraphError("%s: unknown kind %r; known: %s" % (name, kind, ", ".join(KINDS)))
        names = (self.last,) if inputs is None else (inputs,) if isinstance(inputs, str) else tuple(inputs)
        try:
            layer = KINDS[kind]([self.shape(input_) for input_ in names], **options)
        except (GraphError, TypeError, KeyError) as error:
            raise GraphError("%s: %s" % (name, error)) from error
        parts = (layer.shape, layer.options, layer.weights, layer.buffers)
        self.layers[name] = Layer(name, kind, names, *parts, block=self.current_block)
        self.last = name
        return name

    def conv(
        self,
        name: str,
        filters: int,
        kernel: Window,
        stride: Window = 1,
        padding: Padding = "valid",
        groups: int = 1,
        bias: bool = True,
        inputs: Optional[str] = None,
    ) -> str:
        """A convolution; `groups` equal to the channels makes it depthwise."""
        options = {"filters": filters, "kernel": kernel, "stride": stride, "padding": padding}
        return self.add("conv", name, inputs, groups=groups, bias=bias, **options)

    def conv_norm(
        self,
        name: str,
        filters: int,
        kernel: Window,
        stride: Window = 1,
        activation: str = "",
        groups: int = 1,
        padding: Padding = "same",
    ) -> str:
        """A convolution without bias, batch normalisation and, if named, an activation."""
        self.conv(name, filters, kernel, stride, padding, groups, bias=False)
        self.add("batch_norm", name + "_norm")
        return self.activation(name + "_act", activation) if activation else self.last

    def dense(self, name: str, units: int, bias: bool = True, inputs: Optional[str] = None) -> str:
        """A fully connected layer over the last dimension."""
        return self.add("dense", name, inputs, units=units, bias=bias)

    def tied_dense(self, name: str, to: str) -> str:
        """A projection by the weight of an embedding, whose tokens become its units."""
        shape = self.layers[to].weights.get("weight", ()) if to in self.layers else ()
        if len(shape) != 2 or shape[1] != self.shape(self.last)[-1]:
            raise GraphError("%s: %r has no weight that %r could be tied to" % (name, to, self.shape(self.last)))
        return self.add("tied_dense", name, to=to, units=shape[0])

    def activation(self, name: str, function: str, inputs: Optional[str] = None) -> str:
        """An element-wise non-linearity: one of ACTIVATIONS."""
        return self.add("activation", name, inputs, function=function)

    def dropout(self, name: str, rate: float) -> str:
        """Dropout after the last layer; a rate of 0 adds nothing."""
        return self.add("dropout", name, rate=rate) if rate else self.last
