"""The neutral description of a network: layers with shapes, from which every framework builds its own.

A graph holds no framework and no arrays. Shapes leave the batch out and put channels first: (channels, …).
Windows (kernel, stride, pool) have one entry per spatial dimension, so 1-D, 2-D and 3-D are the same kinds.
Padding is written out as (before, after) per dimension: frameworks that round "same" differently get the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

Shape = Tuple[int, ...]
Pads = Tuple[Tuple[int, int], ...]
INPUT = "input"
ACTIVATIONS = ("relu", "tanh", "sigmoid", "silu")
LOSSES = ("cross-entropy", "reconstruction")


class GraphError(ValueError):
    """These layers do not fit together; the message names the layer."""


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

    @property
    def parameters(self) -> int:
        """How many trainable numbers the layer has."""
        return sum(size(shape) for shape in self.weights.values())


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

    def shape_of(self, name: str) -> Shape:
        """The output shape of the layer of that name, or of the graph's input."""
        if name == INPUT:
            return self.input_shape
        return next(layer.shape for layer in self.layers if layer.name == name)


def size(shape: Sequence[int]) -> int:
    """The number of elements of a shape.

    >>> size((6, 28, 28))
    4704
    """
    product = 1
    for extent in shape:
        product *= extent
    return product


def same_pads(kernel: Sequence[int]) -> Pads:
    """Padding that keeps the extent at stride 1; an even kernel gets the odd one behind.

    >>> same_pads((5, 4))
    ((2, 2), (1, 2))
    """
    return tuple(((k - 1) // 2, k // 2) for k in kernel)


class Builder:
    """Builds a graph layer by layer; each method returns the name of the layer it added."""

    def __init__(self, name: str, input_shape: Sequence[int], loss: str = "cross-entropy"):
        if loss not in LOSSES:
            raise GraphError("unknown loss %r" % loss)
        self.name, self.input_shape, self.loss = name, tuple(input_shape), loss
        self.layers: Dict[str, Layer] = {}
        self.last = INPUT

    def graph(self) -> Graph:
        """The finished graph."""
        return Graph(self.name, self.input_shape, tuple(self.layers.values()), self.loss)

    def shape(self, name: str) -> Shape:
        """The shape that a layer, or the input, gives."""
        return self.input_shape if name == INPUT else self.layers[name].shape

    def add(
        self,
        kind: str,
        name: str,
        inputs: Union[str, Sequence[str], None] = None,
        **options: Any,
    ) -> str:
        """Add a layer of a kind; by default its input is the layer added before it."""
        if name in self.layers or name == INPUT:
            raise GraphError("two layers are called %r" % name)
        names = (self.last,) if inputs is None else (inputs,) if isinstance(inputs, str) else tuple(inputs)
        result = KINDS[kind](name, [self.shape(one) for one in names], options)
        self.layers[name] = Layer(name, kind, names, *result)
        self.last = name
        return name

    def conv(
        self,
        name: str,
        filters: int,
        kernel: Union[int, Sequence[int]],
        stride: Union[int, Sequence[int]] = 1,
        padding: Union[str, Pads, int] = "valid",
        groups: int = 1,
        bias: bool = True,
        inputs: Optional[str] = None,
    ) -> str:
        """A convolution; `groups` equal to the channels makes it depthwise."""
        options = {"filters": filters, "kernel": kernel, "stride": stride, "padding": padding}
        return self.add("conv", name, inputs, groups=groups, bias=bias, **options)

    def dense(self, name: str, units: int, bias: bool = True, inputs: Optional[str] = None) -> str:
        """A fully connected layer over the last dimension."""
        return self.add("dense", name, inputs, units=units, bias=bias)

    def activation(self, name: str, function: str, inputs: Optional[str] = None) -> str:
        """An element-wise non-linearity: one of ACTIVATIONS."""
        return self.add("activation", name, inputs, function=function)


# A kind is a function (name, input shapes, options) -> (output shape, full options, weights, buffers).
Made = Tuple[Shape, Dict[str, Any], Dict[str, Shape], Dict[str, Shape]]


def _per_dimension(value: Union[int, Sequence[int]], dimensions: int) -> Tuple[int, ...]:
    return (value,) * dimensions if isinstance(value, int) else tuple(value)


def _pads(padding: Any, kernel: Sequence[int]) -> Pads:
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        return same_pads(kernel)
    if isinstance(padding, int):
        return ((padding, padding),) * len(kernel)
    return tuple((int(before), int(after)) for before, after in padding)


def _slide(name: str, extents: Shape, kernel: Shape, stride: Shape, pads: Pads) -> Shape:
    """The extents after a window has slid over them."""
    out = tuple(
        (extent + before + after - k) // s + 1 if extent + before + after >= k else 0
        for extent, k, s, (before, after) in zip(extents, kernel, stride, pads)
    )
    if min(out) < 1:
        text = "x".join(map(str, extents))
        raise GraphError("%s: a window of %s does not fit an input of %s" % (name, "x".join(map(str, kernel)), text))
    return out


def _conv(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    (channels, *extents), filters, groups = shapes[0], options["filters"], options["groups"]
    kernel = _per_dimension(options["kernel"], len(extents))
    stride = _per_dimension(options["stride"], len(extents))
    pads = _pads(options["padding"], kernel)
    if channels % groups or filters % groups:
        raise GraphError("%s: %d groups do not divide %d and %d channels" % (name, groups, channels, filters))
    weights: Dict[str, Shape] = {"weight": (filters, channels // groups, *kernel)}
    if options["bias"]:
        weights["bias"] = (filters,)
    full = {"filters": filters, "kernel": kernel, "stride": stride, "padding": pads, "groups": groups}
    shape = (filters, *_slide(name, tuple(extents), kernel, stride, pads))
    return shape, dict(full, bias=options["bias"]), weights, {}


def _pool(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    channels, *extents = shapes[0]
    kernel = _per_dimension(options["kernel"], len(extents))
    stride = _per_dimension(options.get("stride", kernel), len(extents))
    pads = _pads(options.get("padding", "valid"), kernel)
    shape = (channels, *_slide(name, tuple(extents), kernel, stride, pads))
    return shape, {"kernel": kernel, "stride": stride, "padding": pads}, {}, {}


def _global_avg_pool(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    return (shapes[0][0],), {}, {}, {}


def _dense(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    weights: Dict[str, Shape] = {"weight": (options["units"], shapes[0][-1])}
    if options["bias"]:
        weights["bias"] = (options["units"],)
    return (*shapes[0][:-1], options["units"]), dict(options), weights, {}


def _batch_norm(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    per_channel = (shapes[0][0],)
    full = {"epsilon": options.get("epsilon", 1e-5), "momentum": options.get("momentum", 0.1)}
    return (
        shapes[0],
        full,
        {"weight": per_channel, "bias": per_channel},
        {"mean": per_channel, "variance": per_channel},
    )


def _activation(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    if options["function"] not in ACTIVATIONS:
        raise GraphError("%s: unknown activation %r" % (name, options["function"]))
    return shapes[0], dict(options), {}, {}


def _dropout(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    return shapes[0], {"rate": options["rate"]}, {}, {}


def _flatten(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    return (size(shapes[0]),), {}, {}, {}


def _reshape(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    shape = tuple(options["shape"])
    if size(shape) != size(shapes[0]):
        raise GraphError("%s: cannot reshape %r to %r" % (name, shapes[0], shape))
    return shape, {"shape": shape}, {}, {}


def _add(name: str, shapes: List[Shape], options: Dict[str, Any]) -> Made:
    if len(set(shapes)) != 1:
        raise GraphError("%s: cannot add shapes %s" % (name, ", ".join(map(str, shapes))))
    return shapes[0], {}, {}, {}


KINDS: Dict[str, Callable[[str, List[Shape], Dict[str, Any]], Made]] = {
    "conv": _conv,
    "max_pool": _pool,
    "avg_pool": _pool,
    "global_avg_pool": _global_avg_pool,
    "dense": _dense,
    "batch_norm": _batch_norm,
    "activation": _activation,
    "dropout": _dropout,
    "flatten": _flatten,
    "reshape": _reshape,
    "add": _add,
}
