"""The neutral graph in TensorFlow operations, channels last: the operations that Keras' own layers come down to."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import tensorflow as tf

from steplab_worker.adapters import _channels_last as last
from steplab_worker.graph import INPUT, Graph, Layer, Shape, size
from steplab_worker.weights import Key

Variables = Dict[str, Any]  # those of one layer, by name
Call = Callable[..., Any]  # of (inputs…, training)
ACTIVATIONS: Dict[str, Callable[[Any], Any]] = {
    "relu": tf.nn.relu,
    "tanh": tf.nn.tanh,
    "sigmoid": tf.nn.sigmoid,
    "silu": tf.nn.silu,
    "gelu": tf.nn.gelu,
    "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
}


class Network(tf.Module):
    """Runs a graph; its variables are made where it is made (inside a strategy's scope: one copy per replica).

    In a precision other than float32 every layer but the norms takes and gives that, as Keras' mixed policies have it.
    """

    def __init__(self, graph: Graph, weights: Mapping[Key, np.ndarray], precision: str = "float32"):
        super().__init__()
        self.graph = graph
        self.trained = _variables(last.all_inward(graph, last.weight_keys(graph), dict(weights)))
        # Each replica keeps its own running values, as Keras' batch normalisation does.
        self.buffers = _variables(last.all_inward(graph, last.buffer_keys(graph), dict(weights)), own=True)
        self.shapes, self.sequences = graph.shapes(), last.sequences(graph)
        self.loose = last.as_they_lie(graph)
        self.inside = {layer.name: "float32" if layer.kind.endswith("_norm") else precision for layer in graph.layers}
        calls = [(layer, self._call(layer)) for layer in graph.layers]
        if precision != "float32":
            calls = [(layer, _lowered(call, self.inside[layer.name], precision)) for layer, call in calls]
        self.calls = calls

    def _call(self, layer: Layer) -> Call:
        """The layer's function, which first lays out its inputs if they come otherwise than it wants them."""
        if layer.kind == "flatten" and layer.name in self.loose:
            return _simple(lambda x: tf.reshape(x, [-1, size(layer.shape)]))
        wanted = last.takes_sequences(layer, self.sequences)
        table = {**LAYERS, **SEQUENCE_LAYERS} if wanted else LAYERS
        own = {name: self.trained[key] for name, key in layer.weight_keys.items()}
        if self.inside[layer.name] != "float32":
            own = Cast(own, self.inside[layer.name])
        own.update({name: self.buffers[layer.name, name] for name in layer.buffers})
        call = table[layer.kind](layer, [self.shapes[name] for name in layer.inputs], own)
        if all((name in self.sequences) == wanted for name in layer.inputs):
            return call
        turn = to_first if wanted else to_last

        def turned(*inputs: Any, training: bool) -> Any:
            pairs = zip(layer.inputs, inputs)
            return call(*[turn(x) if (name in self.sequences) != wanted else x for name, x in pairs], training=training)

        return turned

    def run(self, samples: Any, training: bool) -> Any:
        """The output of the last layer."""
        values = {INPUT: samples}
        for layer, call in self.calls:
            values[layer.name] = call(*[values[name] for name in layer.inputs], training=training)
        return tf.cast(values[self.graph.layers[-1].name], tf.float32)


class Cast(Dict[str, Any]):
    """A layer's variables, each cast when it is used."""

    def __init__(self, variables: Variables, precision: str):
        super().__init__(variables)
        self.precision = precision

    def __getitem__(self, name: str) -> Any:
        return tf.cast(super().__getitem__(name), self.precision)


def _lowered(call: Call, inside: str, precision: str) -> Call:
    """A layer that computes in one precision and gives another."""

    def lowered(*inputs: Any, training: bool) -> Any:
        cast = [tf.cast(x, inside) if x.dtype.is_floating else x for x in inputs]
        return tf.cast(call(*cast, training=training), precision)

    return lowered


def _variables(arrays: Dict[Key, np.ndarray], own: bool = False) -> Dict[Key, Any]:
    kept: Dict[str, Any] = {}
    if own:
        kept = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.MEAN}
    return {key: tf.Variable(array, trainable=not own, name="_".join(key), **kept) for key, array in arrays.items()}


def to_last(samples: Any) -> Any:
    """From the graph's layout to TensorFlow's; with one channel, or none, nothing moves, and NumPy does it for free."""
    if len(samples.shape) < 3 or samples.shape[1] == 1:
        shape = [samples.shape[0], *samples.shape[2:], *samples.shape[1:2]]
        return samples.reshape(shape) if isinstance(samples, np.ndarray) else tf.reshape(samples, shape)
    return tf.transpose(samples, last.last_axes(len(samples.shape)))


def to_first(x: Any) -> Any:
    """From TensorFlow's layout to the graph's."""
    return tf.transpose(x, last.first_axes(len(x.shape))) if len(x.shape) > 2 else x


def flat(x: Any, shape: Shape) -> Any:
    """A batch of samples of a graph's shape as vectors in the graph's order."""
    return tf.reshape(x if last.same_order(shape) else to_first(x), [-1, size(shape)])


def _simple(function: Callable[..., Any]) -> Call:
    return lambda *inputs, training: function(*inputs)


def _padded(x: Any, pads: Sequence[Tuple[int, int]], value: float = 0.0) -> Any:
    return tf.pad(x, [(0, 0), *pads, (0, 0)], constant_values=value)


def _window(layer: Layer, shape: Shape) -> Tuple[Shape, Shape, Sequence[Tuple[int, int]], str]:
    kernel, stride, pads = (layer.options[name] for name in ("kernel", "stride", "padding"))
    return kernel, stride, pads, last.padding_name(shape[1:], kernel, stride, pads)


def _conv(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    _, stride, pads, padding = _window(layer, shapes[0])
    convolve = _convolution(layer.options["groups"], shapes[0][0], stride, padding or "VALID")

    def call(x: Any) -> Any:
        output = convolve(x if padding else _padded(x, pads), own["weight"])
        return tf.nn.bias_add(output, own["bias"]) if "bias" in own else output

    return _simple(call)


def _convolution(groups: int, channels: int, stride: Shape, padding: str) -> Call:
    """A convolution of x with a kernel. TensorFlow's CPU kernels know no groups, but a depthwise operation in 2-D."""
    if groups == 1:
        return lambda x, kernel: tf.nn.convolution(x, kernel, strides=stride, padding=padding)
    if groups == channels and len(stride) == 2 and stride[0] == stride[1]:
        steps = [1, *stride, 1]

        def depthwise(x: Any, kernel: Any) -> Any:
            height, width, _, filters = kernel.shape
            return tf.nn.depthwise_conv2d(
                x, tf.reshape(kernel, [height, width, channels, filters // channels]), steps, padding
            )

        return depthwise

    def grouped(x: Any, kernel: Any) -> Any:
        pairs = zip(tf.split(x, groups, -1), tf.split(kernel, groups, -1))
        return tf.concat([tf.nn.convolution(a, b, strides=stride, padding=padding) for a, b in pairs], -1)

    return grouped


def _dense(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    def call(x: Any) -> Any:
        output = (
            tf.linalg.matmul(x, own["weight"]) if len(x.shape) == 2 else tf.tensordot(to_first(x), own["weight"], 1)
        )
        output = tf.nn.bias_add(output, own["bias"]) if "bias" in own else output
        return output if len(x.shape) == 2 else to_last(output)

    return _simple(call)


def _max_pool(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    kernel, stride, pads, padding = _window(layer, shapes[0])
    if padding:
        return _simple(lambda x: tf.nn.max_pool(x, kernel, stride, padding))
    return _simple(lambda x: tf.nn.max_pool(_padded(x, pads, -np.inf), kernel, stride, "VALID"))


def _avg_pool(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    kernel, stride, pads, padding = _window(layer, shapes[0])
    if padding:
        return _simple(lambda x: tf.nn.avg_pool(x, kernel, stride, padding))
    # The mean over whole windows counts the padding; what the window truly holds makes up for it.
    share = np.float32(size(kernel)) / last.window_counts(shapes[0][1:], kernel, stride, pads)
    return _simple(lambda x: tf.nn.avg_pool(_padded(x, pads), kernel, stride, "VALID") * share)


def _adaptive_avg_pool(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    pairs = list(zip(shapes[0][1:], layer.options["outputs"]))
    matrices = [(axis, last.bin_matrix(n, m)) for axis, (n, m) in enumerate(pairs, start=1) if n != m]

    def call(x: Any) -> Any:
        for axis, matrix in matrices:
            order = [dimension for dimension in range(len(x.shape)) if dimension != axis]
            back = np.argsort([*order, axis])
            x = tf.transpose(tf.tensordot(x, matrix, [[axis], [0]]), back)
        return x

    return _simple(call)


def _batch_norm(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    epsilon, momentum, shape = layer.options["epsilon"], layer.options["momentum"], layer.shape

    def call(x: Any, training: bool) -> Any:
        # The fused kernel is two-dimensional; positions of any dimension are laid out along one.
        normalised, mean, variance = tf.raw_ops.FusedBatchNormV3(
            x=tf.reshape(x, [-1, size(shape[1:]), 1, shape[0]]), scale=own["weight"], offset=own["bias"],
            mean=_no_numbers() if training else own["mean"], variance=_no_numbers() if training else own["variance"],
            epsilon=epsilon, is_training=training,
        )[:3]  # fmt: skip
        if training:
            own["mean"].assign_add(momentum * (mean - own["mean"]))
            own["variance"].assign_add(momentum * (variance - own["variance"]))
        return tf.reshape(normalised, [-1, *shape[1:], shape[0]])

    return call


def _no_numbers() -> Any:
    """In training the fused kernel wants no running values."""
    return tf.constant([], dtype=tf.float32)


def _layer_norm(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    def call(x: Any) -> Any:
        output = _normalised(layer, own, to_first(x))
        return output if len(output.shape) == 2 else to_last(output)

    return _simple(call)


def _normalised(layer: Layer, own: Variables, x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + layer.options["epsilon"]) * own["weight"] + own["bias"]


def _dropout(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    rate = layer.options["rate"]
    return lambda x, training: tf.nn.dropout(x, rate) if training and rate else x


def _drop_path(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    rate, ones = layer.options["rate"], (1,) * len(layer.shape)
    return lambda x, training: tf.nn.dropout(x, rate, noise_shape=[x.shape[0], *ones]) if training and rate else x


def _multiply(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    between = (1,) * (len(shapes[0]) - len(shapes[1]))
    return _simple(lambda first, second: first * tf.reshape(second, [-1, *between, *second.shape[1:]]))


def _attention(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    heads, scale, shape = layer.options["heads"], layer.options["scale"], layer.shape

    def split(x: Any) -> Any:
        return tf.reshape(x, [-1, size(shape[1:]), heads, x.shape[-1] // heads])

    def call(query: Any, key: Any, value: Any) -> Any:
        scores = tf.nn.softmax(tf.einsum("nihc,njhc->nhij", split(query) * scale, split(key)))
        return tf.reshape(tf.einsum("nhij,njhc->nihc", scores, split(value)), [-1, *shape[1:], shape[0]])

    return _simple(call)


def _reshape(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    def call(x: Any) -> Any:
        output = tf.reshape(to_first(x), [x.shape[0], *layer.shape])
        return to_last(output) if len(layer.shape) > 1 else output

    return _simple(call)


def _upsample(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    def call(x: Any) -> Any:
        for axis, factor in enumerate(layer.options["factor"], start=1):
            x = tf.repeat(x, factor, axis) if factor > 1 else x
        return x

    return _simple(call)


def _self_attention(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    (positions, width), heads = layer.shape, layer.options["heads"]
    hidden = np.triu(np.full((positions, positions), -np.inf, np.float32), 1) if layer.options["causal"] else None

    def call(x: Any) -> Any:
        parts = tf.reshape(x, [-1, positions, 3, heads, width // heads])
        query, key, value = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
        scores = tf.linalg.matmul(query * (width // heads) ** -0.5, key, transpose_b=True)
        mixed = tf.linalg.matmul(tf.nn.softmax(scores if hidden is None else scores + hidden), value)
        return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, positions, width])

    return _simple(call)


def _position_embedding(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    (positions, _), rows = layer.shape, layer.options["rows"]
    if rows == positions:
        return _simple(lambda x: x + own["weight"])
    chosen = np.arange(positions) * rows // positions
    return _simple(lambda x: x + tf.gather(own["weight"], chosen))


def _class_token(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    def call(x: Any) -> Any:
        return tf.concat([tf.tile(own["weight"][None], [x.shape[0], 1, 1]), x], 1)

    return _simple(call)


def _sequence_dense(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    units = layer.options["units"]

    def call(x: Any) -> Any:
        # As one product of two matrices: TensorFlow's batched one is slower.
        output = tf.linalg.matmul(tf.reshape(x, [-1, x.shape[-1]]), own["weight"])
        output = tf.nn.bias_add(output, own["bias"]) if "bias" in own else output
        return tf.reshape(output, [-1, *x.shape[1:-1], units])

    return _simple(call)


def _tied_dense(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    def call(x: Any) -> Any:
        output = tf.linalg.matmul(tf.reshape(x, [-1, x.shape[-1]]), own["weight"], transpose_b=True)
        return tf.reshape(output, [-1, *layer.shape])

    return _simple(call)


def _part(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    start, stop = layer.options["start"], layer.options["stop"]
    return _simple(lambda x: x[..., start:stop])


def _sequence_part(layer: Layer, shapes: List[Shape], own: Variables) -> Call:
    start, stop = layer.options["start"], layer.options["stop"]
    return _simple(lambda x: x[:, start:stop])


# A constructor takes the layer, the shapes of its inputs without the batch, and the layer's variables.
LAYERS: Dict[str, Callable[[Layer, List[Shape], Variables], Call]] = {
    "conv": _conv,
    "dense": _dense,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive_avg_pool,
    "global_avg_pool": lambda layer, shapes, own: _simple(
        lambda x: tf.reduce_mean(x, list(range(1, len(x.shape) - 1)))
    ),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "activation": lambda layer, shapes, own: _simple(ACTIVATIONS[layer.options["function"]]),
    "dropout": _dropout,
    "drop_path": _drop_path,
    "add": lambda layer, shapes, own: _simple(lambda *inputs: tf.add_n(inputs)),
    "multiply": _multiply,
    "scale": lambda layer, shapes, own: _simple(lambda x: x * own["weight"]),
    "concat": lambda layer, shapes, own: _simple(lambda *inputs: tf.concat(inputs, -1)),
    "attention": _attention,
    "flatten": lambda layer, shapes, own: _simple(lambda x: flat(x, shapes[0])),
    "reshape": _reshape,
    "upsample": _upsample,
    "embedding": lambda layer, shapes, own: _simple(lambda x: tf.gather(own["weight"], x)),
    "sequence": lambda layer, shapes, own: _simple(lambda x: tf.reshape(x, [-1, *layer.shape])),
    "part": _part,
}
# The same for layers that work on sequences: those that do nothing else, and those that do it in another way.
SEQUENCE_LAYERS: Dict[str, Callable[[Layer, List[Shape], Variables], Call]] = {
    "position_embedding": _position_embedding,
    "class_token": _class_token,
    "self_attention": _self_attention,
    "tied_dense": _tied_dense,
    "dense": _sequence_dense,
    "layer_norm": lambda layer, shapes, own: _simple(lambda x: _normalised(layer, own, x)),
    "concat": lambda layer, shapes, own: _simple(lambda *inputs: tf.concat(inputs, 1)),
    "part": _sequence_part,
}
