"""The neutral graph as a Gluon block: each kind of layer built from MXNet's own layers and operators."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock, nn

from steplab_worker.graph import INPUT, Graph, Layer, Shape, size
from steplab_worker.layers import adaptive_bins
from steplab_worker.weights import Key

CONVOLUTIONS = {1: nn.Conv1D, 2: nn.Conv2D, 3: nn.Conv3D}
MAX_POOLS = {1: nn.MaxPool1D, 2: nn.MaxPool2D, 3: nn.MaxPool3D}
AVG_POOLS = {1: nn.AvgPool1D, 2: nn.AvgPool2D, 3: nn.AvgPool3D}
# Gluon's names for what the graph calls weight, bias, mean and variance of a normalisation.
NORM_NAMES = {"weight": "gamma", "bias": "beta", "mean": "running_mean", "variance": "running_var"}
# What `nn.Activation` does not know.
FUNCTIONS: Dict[str, Callable[..., Any]] = {
    "silu": lambda F, x: x * F.sigmoid(x),
    "gelu": lambda F, x: F.LeakyReLU(x, act_type="gelu"),
    "gelu_tanh": lambda F, x: x * (0.5 * F.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x)) + 0.5),
}
LOWEST = float(np.finfo(np.float32).min)


def build_block(graph: Graph, weights: Mapping[Key, np.ndarray]) -> "GraphBlock":
    """The network as a block, with every weight and buffer taken from `weights`."""
    block = GraphBlock(graph)
    block.initialize(mx.init.Zero())
    for key, array in weights.items():
        block.parameter(*key).set_data(mx.nd.array(array))
    return block


class GraphBlock(HybridBlock):
    """Runs a graph: one child per layer, of the layer's name."""

    def __init__(self, graph: Graph):
        super().__init__()
        shapes = graph.shapes()
        self.graph = graph
        for layer in graph.layers:
            block = self._block(layer, [shapes[name] for name in layer.inputs])
            self.register_child(block, layer.name)

    def _block(self, layer: Layer, shapes: List[Shape]) -> HybridBlock:
        if layer.kind == "tied_dense":
            return _tied_dense(layer, shapes, self._children[layer.options["to"]])
        return LAYERS[layer.kind](layer, shapes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The output of the last layer."""
        values = {INPUT: x}
        for layer in self.graph.layers:
            values[layer.name] = self._children[layer.name](*[values[name] for name in layer.inputs])
        return values[self.graph.layers[-1].name]

    def parameter(self, layer: str, name: str) -> mx.gluon.Parameter:
        """The parameter that holds a layer's weight or buffer."""
        child = self._children[layer]
        child = getattr(child, "core", child)
        return getattr(child, NORM_NAMES[name] if hasattr(child, "gamma") else name)


class LayerClock:
    """Times each layer of one forward and backward pass; between layers the graph of gradients is cut."""

    def __init__(self, block: GraphBlock):
        self.block, self.layers = block, block.graph.layers
        self.seconds = {layer.name: {"t_f": 0.0, "t_b": 0.0} for layer in self.layers}
        self.passed: List[Tuple[Layer, List[mx.nd.NDArray], mx.nd.NDArray]] = []

    def forward(self, x: mx.nd.NDArray) -> mx.nd.NDArray:
        """The network's output, cut off."""
        values = {INPUT: x}
        for layer in self.layers:
            inputs = [values[name].detach() for name in layer.inputs]
            for name, value in zip(layer.inputs, inputs):
                # The step needs no gradient of the samples; only a layer without weights would be left with none.
                if name != INPUT or not layer.weights:
                    value.attach_grad()
            start = _now()
            with mx.autograd.record():
                output = self.block._children[layer.name](*inputs)
            self.seconds[layer.name]["t_f"] = _now() - start
            self.passed.append((layer, inputs, output))
            values[layer.name] = output.detach()
        return values[self.layers[-1].name]

    def backward(self, gradient: mx.nd.NDArray) -> None:
        """From the gradient of the output back to the first layer."""
        gradients = {self.layers[-1].name: gradient}
        for layer, inputs, output in reversed(self.passed):
            if layer.name not in gradients:  # nothing uses it
                continue
            start = _now()
            output.backward(gradients.pop(layer.name))
            self.seconds[layer.name]["t_b"] = _now() - start
            for name, value in zip(layer.inputs, inputs):
                gradients[name] = gradients[name] + value.grad if name in gradients else value.grad


def _now() -> float:
    """The clock once the engine has nothing left to do."""
    mx.nd.waitall()
    return time.perf_counter()


class Operator(HybridBlock):
    """A layer that is a function of its inputs alone: `function(F, *inputs)`."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, x: Any, *others: Any) -> Any:
        return self.function(F, x, *others)


class Padded(HybridBlock):
    """A layer over an input padded unequally, which MXNet's own padding cannot say."""

    def __init__(self, core: HybridBlock, pads: Sequence[Tuple[int, int]], value: float):
        super().__init__()
        self.core, self.value, self.line = core, value, len(pads) == 1
        # The operator pads images and volumes only: a line becomes an image of height one.
        spatial = [(0, 0), *pads] if self.line else list(pads)
        self.pads = (0, 0, 0, 0, *(amount for pair in spatial for amount in pair))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        if self.line:
            x = F.expand_dims(x, axis=2)
        x = F.pad(x, mode="constant", pad_width=self.pads, constant_value=self.value)
        return self.core(F.squeeze(x, axis=2) if self.line else x)


class AsImage(HybridBlock):
    """A normalisation that sees its input as an image: MXNet 1.9 fails in backward of one after a 1-D or 3-D layer."""

    def __init__(self, core: HybridBlock):
        super().__init__()
        self.core = core

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        # `reshape_like` and not `reshape`, which fails here when hybridised.
        return F.reshape_like(self.core(F.reshape(x, shape=(0, 0, -1, 1))), x)


class UnequalAvgPool(HybridBlock):
    """Mean over windows of an unequally padded input: padded elements do not count."""

    def __init__(self, pool: HybridBlock, shape: Shape):
        super().__init__()
        self.pool = pool
        share = pool(mx.nd.ones((1, *shape)))
        self.share = self.params.get_constant("share", share)

    def hybrid_forward(self, F: Any, x: Any, share: Any) -> Any:
        return F.broadcast_div(self.pool(x), share)


class AdaptiveAvgPool(HybridBlock):
    """Mean over adaptive windows: one product with a matrix of shares per dimension (MXNet has it for images only)."""

    def __init__(self, extents: Shape, outputs: Shape):
        super().__init__()
        self.dimensions = len(extents)
        for axis, (extent, number) in enumerate(zip(extents, outputs)):
            setattr(self, "shares%d" % axis, self.params.get_constant("shares%d" % axis, _shares(extent, number)))

    def hybrid_forward(self, F: Any, x: Any, **shares: Any) -> Any:
        for axis in reversed(range(self.dimensions)):
            # The product is over the last axis; turning the axes puts the next one there.
            x = F.dot(x, shares["shares%d" % axis])
            if self.dimensions > 1:
                x = F.transpose(x, axes=(0, 1, self.dimensions + 1, *range(2, self.dimensions + 1)))
        return x


def _shares(extent: int, outputs: int) -> mx.nd.NDArray:
    shares = np.zeros((extent, outputs), dtype=np.float32)
    for column, (start, stop) in enumerate(adaptive_bins(extent, outputs)):
        shares[start:stop, column] = 1.0 / (stop - start)
    return mx.nd.array(shares)


class Scale(HybridBlock):
    """Product of an input of so many axes with one trainable number."""

    def __init__(self, axes: int):
        super().__init__()
        self.ones = (1,) * axes
        self.weight = self.params.get("weight", shape=(1,))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.broadcast_mul(x, F.reshape(weight, shape=self.ones))


class PositionEmbedding(HybridBlock):
    """A trainable row added to each position, or to each of a few equal parts of the positions."""

    def __init__(self, rows: int, positions: int, width: int):
        super().__init__()
        self.one_each = rows == positions
        self.weight = self.params.get("weight", shape=(rows, width))
        self.rows = self.params.get_constant("rows", mx.nd.array(np.arange(positions) * rows // positions))

    def hybrid_forward(self, F: Any, x: Any, weight: Any, rows: Any) -> Any:
        added = weight if self.one_each else F.take(weight, rows)
        return F.broadcast_add(x, F.expand_dims(added, axis=0))


class ClassToken(HybridBlock):
    """A trainable row before the first position."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = self.params.get("weight", shape=(1, width))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        first = F.slice_axis(x, axis=1, begin=0, end=1)
        return F.concat(F.broadcast_like(F.expand_dims(weight, axis=0), first), x, dim=1)


class SelfAttention(HybridBlock):
    """Multi-head attention of a sequence to itself, as products and a softmax."""

    def __init__(self, layer: Layer):
        super().__init__()
        (self.positions, self.width), self.heads = layer.shape, layer.options["heads"]
        self.causal = layer.options["causal"]
        if self.causal:
            hidden = np.triu(np.full((1, self.positions, self.positions), LOWEST, np.float32), 1)
            self.hidden = self.params.get_constant("hidden", mx.nd.array(hidden))

    def hybrid_forward(self, F: Any, x: Any, hidden: Any = None) -> Any:
        split = F.transpose(F.reshape(x, shape=(0, 0, 3, self.heads, -1)), axes=(2, 0, 3, 1, 4))
        query, key, value = (
            F.reshape(part, shape=(-3, 0, 0)) for part in F.split(split, num_outputs=3, axis=0, squeeze_axis=True)
        )
        scores = F.batch_dot(query * (self.width // self.heads) ** -0.5, key, transpose_b=True)
        scores = F.broadcast_add(scores, hidden) if self.causal else scores
        mixed = F.batch_dot(F.softmax(scores, axis=-1), value)
        apart = F.transpose(F.reshape(mixed, shape=(-4, -1, self.heads, 0, 0)), axes=(0, 2, 1, 3))
        return F.reshape(apart, shape=(0, 0, -3))


def _sequence(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    return Operator(lambda F, x: F.transpose(F.reshape(x, shape=(0, 0, -1)), axes=(0, 2, 1)))


def _part(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    start, stop = layer.options["start"], layer.options["stop"]
    return Operator(lambda F, x: F.slice_axis(x, axis=1, begin=start, end=stop))


def _attention(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    heads, scale, positions = layer.options["heads"], layer.options["scale"], size(layer.shape[1:])

    def mix(F: Any, query: Any, key: Any, value: Any) -> Any:
        query, key, value = (
            F.reshape(x, shape=(-1, shape[0] // heads, positions)) for x, shape in zip((query, key, value), shapes)
        )
        attention = F.softmax(F.batch_dot(query * scale, key, transpose_a=True), axis=-1)
        return F.reshape(F.batch_dot(value, attention, transpose_b=True), shape=(-1, *layer.shape))

    return Operator(mix)


def _multiply(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    if shapes[0] == shapes[1]:
        return Operator(lambda F, first, second: first * second)
    channels = (0, 0) + (1,) * (len(shapes[0]) - 1)
    return Operator(lambda F, first, second: F.broadcast_mul(first, F.reshape(second, shape=channels)))


def _activation(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    function = layer.options["function"]
    return Operator(FUNCTIONS[function]) if function in FUNCTIONS else nn.Activation(function)


def _upsample(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    def repeat(F: Any, x: Any) -> Any:
        for axis, times in enumerate(layer.options["factor"], start=2):
            x = F.repeat(x, repeats=times, axis=axis) if times > 1 else x
        return x

    return Operator(repeat)


def _equal(pads: Sequence[Tuple[int, int]]) -> bool:
    return all(before == after for before, after in pads)


def _before(pads: Sequence[Tuple[int, int]]) -> Tuple[int, ...]:
    return tuple(before for before, _ in pads)


def _conv(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    options, pads = layer.options, layer.options["padding"]
    padding = _before(pads) if _equal(pads) else (0,) * len(pads)
    convolution = CONVOLUTIONS[len(pads)](
        options["filters"], options["kernel"], options["stride"], padding,
        groups=options["groups"], use_bias=options["bias"], in_channels=shapes[0][0],
    )  # fmt: skip
    return convolution if _equal(pads) else Padded(convolution, pads, 0.0)


def _dense(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    return nn.Dense(layer.options["units"], use_bias=layer.options["bias"], flatten=False, in_units=shapes[0][-1])


def _tied_dense(layer: Layer, shapes: List[Shape], embedding: HybridBlock) -> HybridBlock:
    """A dense layer that shares the embedding's parameters."""
    return nn.Dense(
        layer.options["units"], use_bias=False, flatten=False, in_units=shapes[0][-1], params=embedding.params
    )


def _native(pads: Sequence[Tuple[int, int]], kernel: Shape) -> bool:
    """Whether MXNet's own pooling is safe with the padding: equal on both sides, at most half the window."""
    return _equal(pads) and all(2 * before <= k for (before, _), k in zip(pads, kernel))


def _max_pool(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    kernel, stride, pads = (layer.options[name] for name in ("kernel", "stride", "padding"))
    pool = MAX_POOLS[len(kernel)]
    return pool(kernel, stride, _before(pads)) if _native(pads, kernel) else Padded(pool(kernel, stride), pads, LOWEST)


def _avg_pool(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    kernel, stride, pads = (layer.options[name] for name in ("kernel", "stride", "padding"))
    pool = AVG_POOLS[len(kernel)]
    if _native(pads, kernel):
        return pool(kernel, stride, _before(pads), count_include_pad=False)
    return UnequalAvgPool(Padded(pool(kernel, stride), pads, 0.0), shapes[0])


def _batch_norm(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    # Gluon's momentum is the share of the old running value that stays.
    momentum = 1.0 - layer.options["momentum"]
    norm = nn.BatchNorm(momentum=momentum, epsilon=layer.options["epsilon"], in_channels=layer.shape[0])
    return AsImage(norm) if len(layer.shape) in (2, 4) else norm


def _layer_norm(layer: Layer, shapes: List[Shape]) -> HybridBlock:
    return nn.LayerNorm(epsilon=layer.options["epsilon"], in_channels=layer.shape[-1])


# A constructor takes the layer and the shapes of its inputs, without the batch. A tied layer needs another one, too.
LAYERS: Dict[str, Callable[[Layer, List[Shape]], HybridBlock]] = {
    "conv": _conv,
    "dense": _dense,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": lambda layer, shapes: AdaptiveAvgPool(shapes[0][1:], layer.options["outputs"]),
    "global_avg_pool": lambda layer, shapes: Operator(lambda F, x: F.mean(x, axis=tuple(range(2, len(shapes[0]) + 1)))),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "activation": _activation,
    "dropout": lambda layer, shapes: nn.Dropout(layer.options["rate"]),
    "drop_path": lambda layer, shapes: nn.Dropout(layer.options["rate"], axes=tuple(range(1, len(layer.shape) + 1))),
    "add": lambda layer, shapes: Operator(lambda F, *inputs: F.add_n(*inputs)),
    "multiply": _multiply,
    "scale": lambda layer, shapes: Scale(len(layer.shape) + 1),
    "concat": lambda layer, shapes: Operator(lambda F, *inputs: F.concat(*inputs, dim=1)),
    "attention": _attention,
    "flatten": lambda layer, shapes: nn.Flatten(),
    "reshape": lambda layer, shapes: Operator(lambda F, x: F.reshape(x, shape=(-1, *layer.options["shape"]))),
    "upsample": _upsample,
    "embedding": lambda layer, shapes: nn.Embedding(layer.options["tokens"], layer.options["width"]),
    "position_embedding": lambda layer, shapes: PositionEmbedding(layer.options["rows"], *layer.shape),
    "class_token": lambda layer, shapes: ClassToken(layer.shape[1]),
    "sequence": _sequence,
    "part": _part,
    "self_attention": lambda layer, shapes: SelfAttention(layer),
}
