"""The neutral graph as a Chainer chain: each kind of layer a function or a link of Chainer's own."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import chainer
import chainer.functions as F  # noqa: N812 - as every Chainer user knows it
import chainer.links as L  # noqa: N812
import numpy as np

from steplab_worker.graph import INPUT, Graph, Layer, Shape, size
from steplab_worker.layers import adaptive_bins
from steplab_worker.weights import Key

ACTIVATIONS: Dict[str, Callable[[Any], Any]] = {
    "relu": F.relu,
    "tanh": F.tanh,
    "sigmoid": F.sigmoid,
    "silu": lambda x: x * F.sigmoid(x),
    "gelu": lambda x: x * (0.5 * F.erf(x * 0.5**0.5) + 0.5),
    "gelu_tanh": lambda x: x * (0.5 * F.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x)) + 0.5),
}
CONVOLUTIONS = {1: L.Convolution1D, 2: L.Convolution2D, 3: L.Convolution3D}
# Chainer's names for what the graph calls weight, bias, mean and variance.
NAMES = {"weight": "W", "bias": "b"}
NORM_NAMES = {"weight": "gamma", "bias": "beta", "mean": "avg_mean", "variance": "avg_var"}
Function = Callable[..., chainer.Variable]


def build_chain(graph: Graph, weights: Mapping[Key, np.ndarray]) -> "GraphChain":
    """The network as a chain, with every weight and buffer taken from `weights`."""
    chain = GraphChain(graph)
    for key, array in weights.items():
        chain.array(*key)[...] = array
    return chain


class GraphChain(chainer.Chain):
    """Runs a graph, layer by layer; layers that learn are its links."""

    def __init__(self, graph: Graph):
        super().__init__()
        shapes = graph.shapes()
        self.graph = graph
        self.functions: Dict[str, Function] = {}
        for index, layer in enumerate(graph.layers):
            function = LAYERS[layer.kind](layer, [shapes[name] for name in layer.inputs])
            self.functions[layer.name] = function
            if layer.kind == "tied_dense":
                function.link = self.functions[layer.options["to"]]
            if layer.weights:
                # An attribute's name must be an identifier, a layer's need not be.
                self.add_link("layer%d" % index, function)

    def forward(self, x: Any) -> chainer.Variable:
        """The output of the last layer."""
        values = {INPUT: x}
        for layer in self.graph.layers:
            values[layer.name] = self.functions[layer.name](*[values[name] for name in layer.inputs])
        return values[self.graph.layers[-1].name]

    def parameter(self, layer: str, name: str) -> Any:
        """The parameter (or the buffer's array) that holds a layer's weight."""
        link = self.functions[layer]
        link = getattr(link, "core", link)
        return getattr(link, (NORM_NAMES if hasattr(link, "gamma") else NAMES)[name])

    def array(self, layer: str, name: str) -> np.ndarray:
        """The array of a layer's weight or buffer."""
        parameter = self.parameter(layer, name)
        return parameter if isinstance(parameter, np.ndarray) else parameter.array


class LayerClock(chainer.FunctionHook):
    """Times each layer of one forward and backward pass, in a `with` block."""

    name = "steplab-layers"

    def __init__(self, chain: GraphChain):
        self.chain = chain
        self.seconds = {layer.name: {"t_f": 0.0, "t_b": 0.0} for layer in chain.graph.layers}
        self.layer = ""  # whose forward runs now
        self.owners: Dict[int, str] = {}  # by the identity of a function, which the gradients' graph keeps alive
        self.start = 0.0

    def forward(self, x: Any) -> chainer.Variable:
        """The network's output."""
        values = {INPUT: x}
        for layer in self.chain.graph.layers:
            self.layer, start = layer.name, time.perf_counter()
            values[layer.name] = self.chain.functions[layer.name](*[values[name] for name in layer.inputs])
            self.seconds[layer.name]["t_f"] = time.perf_counter() - start
        self.layer = ""
        return values[self.chain.graph.layers[-1].name]

    def forward_preprocess(self, function: Any, in_data: Any) -> None:
        """A function is called: it belongs to the layer that runs."""
        if self.layer:
            self.owners[id(function)] = self.layer

    def backward_preprocess(self, function: Any, in_data: Any, out_grad: Any) -> None:
        """A function's backward begins."""
        self.start = time.perf_counter()

    def backward_postprocess(self, function: Any, in_data: Any, out_grad: Any) -> None:
        """A function's backward ends."""
        owner = self.owners.get(id(function))
        if owner is not None:
            self.seconds[owner]["t_b"] += time.perf_counter() - self.start


class Padded(chainer.Chain):
    """A link over an input padded unequally, which Chainer's own padding cannot say."""

    def __init__(self, core: chainer.Link, pads: Sequence[Tuple[int, int]]):
        super().__init__()
        self.pads = [(0, 0), (0, 0), *pads]
        with self.init_scope():
            self.core = core

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        return self.core(F.pad(x, self.pads, "constant"))


class Dense(L.Linear):
    """A linear layer over the last dimension, whatever stands before it."""

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        return super().forward(x, n_batch_axes=x.ndim - 1)


class LayerNorm(L.LayerNormalization):
    """Normalisation over the last dimension, whatever stands before it."""

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        return F.reshape(super().forward(F.reshape(x, (-1, x.shape[-1]))), x.shape)


class Scale(chainer.Link):
    """Product with one trainable number."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.W = chainer.Parameter(np.ones(1, np.float32))

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        return x * F.broadcast_to(self.W, x.shape)


class PositionEmbedding(chainer.Link):
    """A trainable row added to each position, or to each of a few equal parts of the positions."""

    def __init__(self, rows: int, positions: int, width: int):
        super().__init__()
        self.rows = None if rows == positions else np.arange(positions, dtype=np.int32) * rows // positions
        with self.init_scope():
            self.W = chainer.Parameter(np.zeros((rows, width), np.float32))

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        rows = self.W if self.rows is None else F.embed_id(self.rows, self.W)
        return x + F.broadcast_to(rows, x.shape)


class ClassToken(chainer.Link):
    """A trainable row before the first position."""

    def __init__(self, width: int):
        super().__init__()
        with self.init_scope():
            self.W = chainer.Parameter(np.zeros((1, width), np.float32))

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        return F.concat([F.broadcast_to(self.W, (len(x), *self.W.shape)), x], axis=1)


class TiedDense:
    """A projection by the weight of another layer's link."""

    link: chainer.Link

    def __call__(self, x: chainer.Variable) -> chainer.Variable:
        return F.linear(x, self.link.W, n_batch_axes=x.ndim - 1)


def _self_attention(layer: Layer, shapes: List[Shape]) -> Function:
    (positions, width), heads = layer.shape, layer.options["heads"]
    hidden = np.triu(np.full((positions, positions), -np.inf, np.float32), 1) if layer.options["causal"] else None

    def mix(x: chainer.Variable) -> chainer.Variable:
        parts = F.transpose(F.reshape(x, (len(x), positions, 3, heads, width // heads)), (2, 0, 3, 1, 4))
        query, key, value = (F.reshape(part, (len(x) * heads, positions, -1)) for part in F.separate(parts))
        scores = F.matmul(query * (width // heads) ** -0.5, key, transb=True)
        if hidden is not None:
            scores = scores + np.broadcast_to(hidden, scores.shape)
        mixed = F.reshape(F.matmul(F.softmax(scores, axis=2), value), (len(x), heads, positions, -1))
        return F.reshape(F.transpose(mixed, (0, 2, 1, 3)), (len(x), positions, width))

    return mix


def _sequence(layer: Layer, shapes: List[Shape]) -> Function:
    return lambda x: F.transpose(F.reshape(x, (len(x), layer.shape[1], layer.shape[0])), (0, 2, 1))


def _drop_path(layer: Layer, shapes: List[Shape]) -> Function:
    rate = layer.options["rate"]

    def drop(x: chainer.Variable) -> chainer.Variable:
        if not rate or not chainer.config.train:
            return x
        kept = F.dropout(np.ones((len(x),) + (1,) * (x.ndim - 1), np.float32), rate)
        return x * F.broadcast_to(kept, x.shape)

    return drop


def _attention(layer: Layer, shapes: List[Shape]) -> Function:
    heads, scale, positions = layer.options["heads"], layer.options["scale"], size(layer.shape[1:])

    def mix(*parts: chainer.Variable) -> chainer.Variable:
        query, key, value = (
            F.reshape(x, (len(x) * heads, shape[0] // heads, positions)) for x, shape in zip(parts, shapes)
        )
        attention = F.softmax(F.matmul(query * scale, key, transa=True), axis=2)
        return F.reshape(F.matmul(value, attention, transb=True), (len(parts[0]), *layer.shape))

    return mix


def _adaptive_avg_pool(layer: Layer, shapes: List[Shape]) -> Function:
    """One product with a matrix of shares per dimension: Chainer has no adaptive pooling."""
    matrices = [_shares(extent, number) for extent, number in zip(shapes[0][1:], layer.options["outputs"])]

    def pool(x: chainer.Variable) -> chainer.Variable:
        for axis, matrix in enumerate(matrices, start=2):
            x = F.moveaxis(F.tensordot(x, matrix, axes=([axis], [0])), -1, axis)
        return x

    return pool


def _shares(extent: int, outputs: int) -> np.ndarray:
    shares = np.zeros((extent, outputs), dtype=np.float32)
    for column, (start, stop) in enumerate(adaptive_bins(extent, outputs)):
        shares[start:stop, column] = 1.0 / (stop - start)
    return shares


def _multiply(layer: Layer, shapes: List[Shape]) -> Function:
    def multiply(first: chainer.Variable, second: chainer.Variable) -> chainer.Variable:
        channels = F.reshape(second, second.shape + (1,) * (first.ndim - second.ndim))
        return first * F.broadcast_to(channels, first.shape)

    return multiply


def _upsample(layer: Layer, shapes: List[Shape]) -> Function:
    def repeat(x: chainer.Variable) -> chainer.Variable:
        for axis, times in enumerate(layer.options["factor"], start=2):
            x = F.repeat(x, times, axis) if times > 1 else x
        return x

    return repeat


def _equal(pads: Sequence[Tuple[int, int]]) -> bool:
    return all(before == after for before, after in pads)


def _before(pads: Sequence[Tuple[int, int]]) -> Tuple[int, ...]:
    return tuple(before for before, _ in pads)


def _conv(layer: Layer, shapes: List[Shape]) -> chainer.Link:
    options, pads = layer.options, layer.options["padding"]
    padding = _before(pads) if _equal(pads) else (0,) * len(pads)
    convolution = CONVOLUTIONS[len(pads)](
        shapes[0][0], options["filters"], options["kernel"], options["stride"], padding,
        nobias=not options["bias"], groups=options["groups"],
    )  # fmt: skip
    return convolution if _equal(pads) else Padded(convolution, pads)


def _dense(layer: Layer, shapes: List[Shape]) -> chainer.Link:
    return Dense(shapes[0][-1], layer.options["units"], nobias=not layer.options["bias"])


def _max_pool(layer: Layer, shapes: List[Shape]) -> Function:
    kernel, stride, pads = (layer.options[name] for name in ("kernel", "stride", "padding"))
    pool = F.max_pooling_2d if len(kernel) == 2 else F.max_pooling_nd
    if _equal(pads):
        return lambda x: pool(x, kernel, stride, _before(pads), cover_all=False)
    wide = [(0, 0), (0, 0), *pads]
    return lambda x: pool(F.pad(x, wide, "constant", constant_values=-np.inf), kernel, stride, cover_all=False)


def _avg_pool(layer: Layer, shapes: List[Shape]) -> Function:
    kernel, stride, pads = (layer.options[name] for name in ("kernel", "stride", "padding"))
    pool = F.average_pooling_2d if len(kernel) == 2 else F.average_pooling_nd
    wide = [(0, 0), (0, 0), *pads]

    def mean(x: Any) -> chainer.Variable:
        if _equal(pads):
            return pool(x, kernel, stride, _before(pads))
        return pool(F.pad(x, wide, "constant"), kernel, stride)

    if not any(map(any, pads)):
        return mean
    # Padded elements must not count. Chainer has `pad_value=None` for that, but its backward changes the gradient of
    # its output in place, and with it that of whatever else was added to the output.
    share = mean(np.ones((1, *shapes[0]), np.float32)).array

    def pool_inside(x: chainer.Variable) -> chainer.Variable:
        means = mean(x)
        return means / np.broadcast_to(share, means.shape)

    return pool_inside


def _batch_norm(layer: Layer, shapes: List[Shape]) -> chainer.Link:
    # Chainer's decay is the share of the old running value that stays; its running variance is the unbiased one.
    return L.BatchNormalization(layer.shape[0], decay=1.0 - layer.options["momentum"], eps=layer.options["epsilon"])


# A constructor takes the layer and the shapes of its inputs, without the batch.
LAYERS: Dict[str, Callable[[Layer, List[Shape]], Function]] = {
    "conv": _conv,
    "dense": _dense,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive_avg_pool,
    "global_avg_pool": lambda layer, shapes: lambda x: F.mean(x, axis=tuple(range(2, len(shapes[0]) + 1))),
    "batch_norm": _batch_norm,
    "layer_norm": lambda layer, shapes: LayerNorm(layer.shape[-1], eps=layer.options["epsilon"]),
    "activation": lambda layer, shapes: ACTIVATIONS[layer.options["function"]],
    "dropout": lambda layer, shapes: lambda x: F.dropout(x, layer.options["rate"]),
    "drop_path": _drop_path,
    "add": lambda layer, shapes: lambda *inputs: F.add(*inputs),
    "multiply": _multiply,
    "scale": lambda layer, shapes: Scale(),
    "concat": lambda layer, shapes: lambda *inputs: F.concat(inputs, axis=1),
    "attention": _attention,
    "flatten": lambda layer, shapes: lambda x: F.reshape(x, (len(x), -1)),
    "reshape": lambda layer, shapes: lambda x: F.reshape(x, (len(x), *layer.options["shape"])),
    "upsample": _upsample,
    "embedding": lambda layer, shapes: L.EmbedID(layer.options["tokens"], layer.options["width"]),
    "position_embedding": lambda layer, shapes: PositionEmbedding(layer.options["rows"], *layer.shape),
    "class_token": lambda layer, shapes: ClassToken(layer.shape[1]),
    "sequence": _sequence,
    "part": lambda layer, shapes: lambda x: x[:, layer.options["start"] : layer.options["stop"]],
    "self_attention": _self_attention,
    "tied_dense": lambda layer, shapes: TiedDense(),
}
