"""The neutral graph as a pure function in JAX, channels last: lax convolutions and window reductions."""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any, Callable, Dict, List, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from steplab_worker.adapters import _channels_last as last
from steplab_worker.graph import INPUT, Graph, Layer, Segment, Shape, size
from steplab_worker.weights import Key

Arrays = Dict[Key, Any]
Weights = Dict[str, Any]  # those of one layer, by name
Call = Callable[..., Any]  # of (weights, context, inputs…)
KEPT = "kept"  # by backward, of a network whose blocks are recomputed
ACTIVATIONS: Dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": jax.nn.gelu,
}
LAYOUTS = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}


class Context:
    """What a call may need beside weights and inputs: training or not, random keys, and new running values."""

    def __init__(self, training: bool, key: Any):
        self.training, self.key = training, key
        self.buffers: Arrays = {}

    def random_key(self, layer: Layer) -> Any:
        """A key for that layer alone."""
        return jax.random.fold_in(self.key, zlib.crc32(layer.name.encode()))


class Network:
    """Runs a graph; in a precision other than float32 every layer but the norms takes and gives that."""

    def __init__(self, graph: Graph, precision: str = "float32", recompute: bool = False):
        self.graph, self.precision, self.recompute = graph, precision, recompute
        self.segments = graph.segments()
        self.shapes, self.sequences = graph.shapes(), last.sequences(graph)
        self.loose = last.as_they_lie(graph)
        calls = [(layer, self._call(layer)) for layer in graph.layers]
        if precision != "float32":
            calls = [(layer, _lowered(layer, call, precision)) for layer, call in calls]
        self.calls: Dict[str, Call] = {layer.name: call for layer, call in calls}

    def _call(self, layer: Layer) -> Call:
        """The layer's function, which first lays out its inputs if they come otherwise than it wants them."""
        if layer.kind == "flatten" and layer.name in self.loose:
            return _weightless(lambda x: x.reshape(x.shape[0], -1))
        wanted = last.takes_sequences(layer, self.sequences)
        table = {**LAYERS, **SEQUENCE_LAYERS} if wanted else LAYERS
        call = table[layer.kind](layer, [self.shapes[name] for name in layer.inputs])
        if all((name in self.sequences) == wanted for name in layer.inputs):
            return call
        turn = to_first if wanted else to_last

        def turned(own: Weights, context: Context, *inputs: Any) -> Any:
            pairs = zip(layer.inputs, inputs)
            return call(own, context, *[turn(x) if (name in self.sequences) != wanted else x for name, x in pairs])

        return turned

    def __call__(self, weights: Arrays, buffers: Arrays, samples: Any, key: Any, training: bool) -> Tuple[Any, Arrays]:
        """The output of the last layer, and the buffers after this batch."""
        if self.recompute and training:
            return self._recomputed(weights, buffers, samples, key)
        context, values = Context(training, key), {INPUT: samples}
        self._run(self.graph.layers, weights, buffers, context, values)
        return values[self.graph.layers[-1].name].astype(jnp.float32), {**buffers, **context.buffers}

    def _run(
        self, layers: Sequence[Layer], weights: Arrays, buffers: Arrays, context: Context, values: Dict[str, Any]
    ) -> None:
        """Add what these layers give to the values."""
        for layer in layers:
            own = {name: weights[key] for name, key in layer.weight_keys.items()}
            own.update({name: buffers[layer.name, name] for name in layer.buffers})
            inputs = [values[name] for name in layer.inputs]
            values[layer.name] = self.calls[layer.name](own, context, *inputs)

    def _recomputed(self, weights: Arrays, buffers: Arrays, samples: Any, key: Any) -> Tuple[Any, Arrays]:
        """The same in training, of whose blocks backward finds the inputs only (T. Chen et al., arXiv:1604.06174).

        All that it finds has the name KEPT, for those who put the whole under a policy of their own.
        """
        values, changed = {INPUT: samples}, {}
        for segment in self.segments:
            run = partial(self._segment, segment)
            outputs, new = (jax.checkpoint(run) if segment.block else run)(
                {own: weights[own] for layer in segment.layers for own in layer.weight_keys.values()},
                {(layer.name, name): buffers[layer.name, name] for layer in segment.layers for name in layer.buffers},
                [values[name] for name in segment.inputs],
                key,
            )
            values.update(zip(segment.outputs, [checkpoint_name(output, KEPT) for output in outputs]))
            changed.update(new)
        return values[self.graph.layers[-1].name].astype(jnp.float32), {**buffers, **changed}

    def _segment(self, segment: Segment, weights: Arrays, buffers: Arrays, inputs: List[Any], key: Any) -> Any:
        """What a segment gives, and its new buffers."""
        context, values = Context(True, key), dict(zip(segment.inputs, inputs))
        for layer in segment.layers:
            self._run([layer], weights, buffers, context, values)
            if not segment.block:
                values[layer.name] = checkpoint_name(values[layer.name], KEPT)
        return [values[name] for name in segment.outputs], context.buffers


def _lowered(layer: Layer, call: Call, precision: str) -> Call:
    """A layer with its weights and inputs cast; norms compute in float32."""
    inside = "float32" if layer.kind.endswith("_norm") else precision

    def cast(x: Any) -> Any:
        return x.astype(inside) if jnp.issubdtype(x.dtype, jnp.floating) else x

    def lowered(own: Weights, context: Context, *inputs: Any) -> Any:
        weights = {name: own[name] if name in layer.buffers else cast(own[name]) for name in own}
        return call(weights, context, *map(cast, inputs)).astype(precision)

    return lowered


def to_last(samples: Any) -> Any:
    """From the graph's layout to the kernels'."""
    return jnp.transpose(samples, last.last_axes(samples.ndim))


def to_first(x: Any) -> Any:
    """From the kernels' layout to the graph's."""
    return jnp.transpose(x, last.first_axes(x.ndim))


def flat(x: Any, shape: Shape) -> Any:
    """A batch of samples of a graph's shape as vectors in the graph's order."""
    return (x if last.same_order(shape) else to_first(x)).reshape(x.shape[0], size(shape))


def _conv(layer: Layer, shapes: List[Shape]) -> Call:
    options = layer.options

    def call(own: Weights, context: Context, x: Any) -> Any:
        output = lax.conv_general_dilated(
            x, own["weight"], options["stride"], options["padding"],
            dimension_numbers=LAYOUTS[len(options["kernel"])], feature_group_count=options["groups"],
        )  # fmt: skip
        return output + own["bias"] if "bias" in own else output

    return call


def _dense(layer: Layer, shapes: List[Shape]) -> Call:
    def call(own: Weights, context: Context, x: Any) -> Any:
        output = jnp.matmul(to_first(x), own["weight"])
        return to_last(output + own["bias"] if "bias" in own else output)

    return call


def _windows(layer: Layer) -> Tuple[Shape, Shape, Sequence[Tuple[int, int]]]:
    """Window, stride and padding over batch, positions and channels."""
    kernel, stride, pads = (layer.options[name] for name in ("kernel", "stride", "padding"))
    return (1, *kernel, 1), (1, *stride, 1), ((0, 0), *pads, (0, 0))


def _max_pool(layer: Layer, shapes: List[Shape]) -> Call:
    windows = _windows(layer)
    return lambda own, context, x: lax.reduce_window(x, -jnp.inf, lax.max, *windows)


def _avg_pool(layer: Layer, shapes: List[Shape]) -> Call:
    windows = _windows(layer)
    held = last.window_counts(shapes[0][1:], *(layer.options[name] for name in ("kernel", "stride", "padding")))
    return lambda own, context, x: lax.reduce_window(x, 0.0, lax.add, *windows) * (1 / held)


def _adaptive_avg_pool(layer: Layer, shapes: List[Shape]) -> Call:
    pairs = list(zip(shapes[0][1:], layer.options["outputs"]))
    matrices = [(axis, last.bin_matrix(n, m)) for axis, (n, m) in enumerate(pairs, start=1) if n != m]

    def call(own: Weights, context: Context, x: Any) -> Any:
        for axis, matrix in matrices:
            x = jnp.moveaxis(jnp.tensordot(x, matrix, [[axis], [0]]), -1, axis)
        return x

    return call


def _batch_norm(layer: Layer, shapes: List[Shape]) -> Call:
    epsilon, momentum = layer.options["epsilon"], layer.options["momentum"]

    def call(own: Weights, context: Context, x: Any) -> Any:
        mean, variance = own["mean"], own["variance"]
        if context.training:
            axes, held = tuple(range(x.ndim - 1)), x.size // x.shape[-1]
            mean = jnp.mean(x, axes)
            variance = jnp.mean(jnp.square(x - mean), axes)
            unbiased = variance * (held / max(held - 1, 1))
            context.buffers[layer.name, "mean"] = own["mean"] + momentum * (mean - own["mean"])
            context.buffers[layer.name, "variance"] = own["variance"] + momentum * (unbiased - own["variance"])
        return (x - mean) * (lax.rsqrt(variance + epsilon) * own["weight"]) + own["bias"]

    return call


def _layer_norm(layer: Layer, shapes: List[Shape]) -> Call:
    return lambda own, context, x: to_last(_normalised(layer, own, to_first(x)))


def _dropout(layer: Layer, shapes: List[Shape]) -> Call:
    return _dropping(layer, lambda shape: shape)


def _drop_path(layer: Layer, shapes: List[Shape]) -> Call:
    return _dropping(layer, lambda shape: shape[:1] + (1,) * (len(shape) - 1))


def _dropping(layer: Layer, drawn: Callable[[Shape], Shape]) -> Call:
    """Dropout with as many draws as the shape that `drawn` makes of the input's."""
    rate = layer.options["rate"]

    def call(own: Weights, context: Context, x: Any) -> Any:
        if not context.training or not rate:
            return x
        kept = jax.random.bernoulli(context.random_key(layer), 1 - rate, drawn(x.shape))
        return jnp.where(kept, x / (1 - rate), 0.0)

    return call


def _multiply(layer: Layer, shapes: List[Shape]) -> Call:
    between = (1,) * (len(shapes[0]) - len(shapes[1]))
    return lambda own, context, first, second: first * second.reshape(second.shape[0], *between, *second.shape[1:])


def _attention(layer: Layer, shapes: List[Shape]) -> Call:
    heads, scale = layer.options["heads"], layer.options["scale"]

    def split(x: Any) -> Any:
        return x.reshape(x.shape[0], -1, heads, x.shape[-1] // heads)

    def call(own: Weights, context: Context, query: Any, key: Any, value: Any) -> Any:
        scores = jax.nn.softmax(jnp.einsum("nihc,njhc->nhij", split(query) * scale, split(key)))
        return jnp.einsum("nhij,njhc->nihc", scores, split(value)).reshape(value.shape)

    return call


def _upsample(layer: Layer, shapes: List[Shape]) -> Call:
    def call(own: Weights, context: Context, x: Any) -> Any:
        for axis, factor in enumerate(layer.options["factor"], start=1):
            x = jnp.repeat(x, factor, axis)
        return x

    return call


def _reshape(layer: Layer, shapes: List[Shape]) -> Call:
    return lambda own, context, x: to_last(to_first(x).reshape(x.shape[0], *layer.shape))


def _self_attention(layer: Layer, shapes: List[Shape]) -> Call:
    heads, causal = layer.options["heads"], layer.options["causal"]

    def call(own: Weights, context: Context, x: Any) -> Any:
        parts = x.reshape(*x.shape[:2], 3, heads, -1)
        query, key, value = (parts[:, :, part] for part in range(3))
        return jax.nn.dot_product_attention(query, key, value, is_causal=causal).reshape(-1, *layer.shape)

    return call


def _position_embedding(layer: Layer, shapes: List[Shape]) -> Call:
    (positions, _), rows = layer.shape, layer.options["rows"]
    if rows == positions:
        return lambda own, context, x: x + own["weight"]
    chosen = np.arange(positions) * rows // positions
    return lambda own, context, x: x + own["weight"][chosen]


def _class_token(layer: Layer, shapes: List[Shape]) -> Call:
    def call(own: Weights, context: Context, x: Any) -> Any:
        first = jnp.broadcast_to(own["weight"], (x.shape[0], *own["weight"].shape))
        return jnp.concatenate([first, x], 1)

    return call


def _part(axis: int) -> Callable[[Layer, List[Shape]], Call]:
    def build(layer: Layer, shapes: List[Shape]) -> Call:
        start, stop = layer.options["start"], layer.options["stop"]
        return _weightless(lambda x: lax.slice_in_dim(x, start, stop, axis=axis % x.ndim))

    return build


def _sequence_dense(layer: Layer, shapes: List[Shape]) -> Call:
    def call(own: Weights, context: Context, x: Any) -> Any:
        output = jnp.matmul(x, own["weight"])
        return output + own["bias"] if "bias" in own else output

    return call


def _normalised(layer: Layer, own: Weights, x: Any) -> Any:
    centred = x - jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), -1, keepdims=True)
    return centred * lax.rsqrt(variance + layer.options["epsilon"]) * own["weight"] + own["bias"]


def _weightless(function: Callable[..., Any]) -> Call:
    return lambda own, context, *inputs: function(*inputs)


# A constructor takes the layer and the shapes of its inputs, without the batch.
LAYERS: Dict[str, Callable[[Layer, List[Shape]], Call]] = {
    "conv": _conv,
    "dense": _dense,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive_avg_pool,
    "global_avg_pool": lambda layer, shapes: _weightless(lambda x: jnp.mean(x, tuple(range(1, x.ndim - 1)))),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "activation": lambda layer, shapes: _weightless(ACTIVATIONS[layer.options["function"]]),
    "dropout": _dropout,
    "drop_path": _drop_path,
    "add": lambda layer, shapes: _weightless(lambda first, *others: sum(others, first)),
    "multiply": _multiply,
    "scale": lambda layer, shapes: lambda own, context, x: x * own["weight"],
    "concat": lambda layer, shapes: _weightless(lambda *inputs: jnp.concatenate(inputs, -1)),
    "attention": _attention,
    "flatten": lambda layer, shapes: _weightless(lambda x: flat(x, shapes[0])),
    "reshape": _reshape,
    "upsample": _upsample,
    "embedding": lambda layer, shapes: lambda own, context, x: own["weight"][x],
    "sequence": lambda layer, shapes: _weightless(lambda x: x.reshape(-1, *layer.shape)),
    "part": _part(-1),
}
# The same for layers that work on sequences: those that do nothing else, and those that do it in another way.
SEQUENCE_LAYERS: Dict[str, Callable[[Layer, List[Shape]], Call]] = {
    "position_embedding": _position_embedding,
    "class_token": _class_token,
    "self_attention": _self_attention,
    "tied_dense": lambda layer, shapes: lambda own, context, x: jnp.matmul(x, own["weight"].T),
    "dense": _sequence_dense,
    "layer_norm": lambda layer, shapes: lambda own, context, x: _normalised(layer, own, x),
    "concat": lambda layer, shapes: _weightless(lambda *inputs: jnp.concatenate(inputs, 1)),
    "part": _part(1),
}
