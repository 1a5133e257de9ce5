"""The kinds of layers, each defined so that every framework can build exactly the same.

A kind is a function of the shapes of its inputs and of its options, which gives the output shape, all options written
out, and the shapes of what it learns. Its docstring defines what it computes. Shapes leave the batch out and put
channels first, (channels, …), or, in a sequence, positions first, (positions, width); the order of elements is
row-major. Windows have one entry per spatial dimension, so
1-D, 2-D and 3-D are the same kinds. Padding is written out as (before, after) per dimension, because frameworks
round "same" differently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple, Union

Shape = Tuple[int, ...]
Pads = Tuple[Tuple[int, int], ...]
Window = Union[int, Sequence[int]]
Padding = Union[str, int, Sequence[Sequence[int]]]
ACTIVATIONS = ("relu", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh")
RANDOM = ("dropout", "drop_path")


class GraphError(ValueError):
    """These layers do not fit together; the message names the layer."""


@dataclass(frozen=True)
class LayerSpec:
    """What a kind makes of its inputs: output shape, options written out, trainable weights, other state."""

    shape: Shape
    options: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, Shape] = field(default_factory=dict)
    buffers: Mapping[str, Shape] = field(default_factory=dict)


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


def adaptive_bins(extent: int, outputs: int) -> List[Tuple[int, int]]:
    """The (start, stop) of each window of adaptive pooling: floor(i·n/m) to ceil((i+1)·n/m), which may overlap.

    >>> adaptive_bins(7, 3)
    [(0, 3), (2, 5), (4, 7)]
    """
    return [(i * extent // outputs, -(-(i + 1) * extent // outputs)) for i in range(outputs)]


def conv(
    shapes: List[Shape],
    filters: int,
    kernel: Window,
    stride: Window = 1,
    padding: Padding = "valid",
    groups: int = 1,
    bias: bool = True,
) -> LayerSpec:
    """Cross-correlation with zero padding; weight (filters, channels/groups, *kernel).

    Channels and filters are cut into `groups` consecutive parts; part g of the channels feeds part g of the filters.
    """
    channels, *extents = _features(shapes)
    kernel, stride, pads = _window(len(extents), kernel, stride, padding)
    _positive(filters=filters, groups=groups)
    if channels % groups or filters % groups:
        raise GraphError("%d groups do not divide %d and %d channels" % (groups, channels, filters))
    weights: Dict[str, Shape] = {"weight": (filters, channels // groups, *kernel)}
    if bias:
        weights["bias"] = (filters,)
    options = {"filters": filters, "kernel": kernel, "stride": stride, "padding": pads, "groups": groups, "bias": bias}
    return LayerSpec((filters, *_slide(extents, kernel, stride, pads)), options, weights)


def dense(shapes: List[Shape], units: int, bias: bool = True) -> LayerSpec:
    """x·Wᵀ + b over the last dimension; weight (units, features)."""
    (shape,) = _inputs(shapes, 1)
    _positive(units=units)
    weights: Dict[str, Shape] = {"weight": (units, shape[-1])}
    if bias:
        weights["bias"] = (units,)
    return LayerSpec((*shape[:-1], units), {"units": units, "bias": bias}, weights)


def pool(
    shapes: List[Shape], kernel: Window, stride: Union[Window, None] = None, padding: Padding = "valid"
) -> LayerSpec:
    """Maximum or mean of each whole window; padding is never the maximum and does not count in the mean."""
    channels, *extents = _features(shapes)
    kernel, stride, pads = _window(len(extents), kernel, kernel if stride is None else stride, padding)
    if any(max(pair) >= k for pair, k in zip(pads, kernel)):
        raise GraphError("padding as wide as the window leaves windows without any input")
    shape = (channels, *_slide(extents, kernel, stride, pads))
    return LayerSpec(shape, {"kernel": kernel, "stride": stride, "padding": pads})


def adaptive_avg_pool(shapes: List[Shape], outputs: Window) -> LayerSpec:
    """Mean over the windows of `adaptive_bins`, per dimension; more outputs than inputs repeat elements."""
    channels, *extents = _features(shapes)
    outputs = _per_dimension(outputs, len(extents))
    return LayerSpec((channels, *outputs), {"outputs": outputs})


def global_avg_pool(shapes: List[Shape]) -> LayerSpec:
    """Mean over all positions: (channels, …) becomes (channels,)."""
    return LayerSpec(_features(shapes)[:1])


def batch_norm(shapes: List[Shape], epsilon: float = 1e-5, momentum: float = 0.1) -> LayerSpec:
    """Per channel over batch and positions: (x − mean)/sqrt(biased variance + epsilon)·weight + bias.

    After each training step running = (1 − momentum)·running + momentum·batch, with the unbiased variance (n/(n−1));
    inference normalises with the running values.
    """
    (shape,) = _inputs(shapes, 1)
    channels = shape[:1]
    options = {"epsilon": float(epsilon), "momentum": float(momentum)}
    return LayerSpec(shape, options, {"weight": channels, "bias": channels}, {"mean": channels, "variance": channels})


def layer_norm(shapes: List[Shape], epsilon: float = 1e-5) -> LayerSpec:
    """Per sample and position over the last dimension: (x − mean)/sqrt(biased variance + epsilon)·weight + bias."""
    (shape,) = _inputs(shapes, 1)
    return LayerSpec(shape, {"epsilon": float(epsilon)}, {"weight": shape[-1:], "bias": shape[-1:]})


def activation(shapes: List[Shape], function: str) -> LayerSpec:
    """Element-wise: relu max(x, 0), with gradient 0 at 0; tanh; sigmoid 1/(1+exp(−x)); silu x·sigmoid(x).

    gelu x·(1+erf(x/√2))/2 and gelu_tanh x·(1+tanh(√(2/π)·(x+0.044715·x³)))/2 (D. Hendrycks, K. Gimpel, "Gaussian error
    linear units", 2016).
    """
    (shape,) = _inputs(shapes, 1)
    if function not in ACTIVATIONS:
        raise GraphError("unknown activation %r; known: %s" % (function, ", ".join(ACTIVATIONS)))
    return LayerSpec(shape, {"function": function})


def dropout(shapes: List[Shape], rate: float) -> LayerSpec:
    """In training each element is 0 with probability rate, the others are divided by 1 − rate; otherwise identity."""
    (shape,) = _inputs(shapes, 1)
    if not 0 <= rate < 1:
        raise GraphError("a rate must be from 0 to below 1, not %r" % (rate,))
    return LayerSpec(shape, {"rate": float(rate)})


def drop_path(shapes: List[Shape], rate: float) -> LayerSpec:
    """Dropout of whole samples (stochastic depth): one draw for all elements of a sample."""
    return dropout(shapes, rate)


def add(shapes: List[Shape]) -> LayerSpec:
    """Sum of two or more inputs of the same shape."""
    if len(shapes) < 2 or len(set(shapes)) != 1:
        raise GraphError("cannot add shapes %s" % ", ".join(map(str, shapes)))
    return LayerSpec(shapes[0])


def multiply(shapes: List[Shape]) -> LayerSpec:
    """Product of two inputs; the second has the same shape, or is (channels,) and scales each channel of the first."""
    first, second = _inputs(shapes, 2)
    if second not in (first, first[:1]):
        raise GraphError("cannot multiply %r by %r" % (first, second))
    return LayerSpec(first)


def scale(shapes: List[Shape], initial: float = 1.0) -> LayerSpec:
    """Product with one trainable number, which begins at `initial`."""
    (shape,) = _inputs(shapes, 1)
    return LayerSpec(shape, {"initial": float(initial)}, {"weight": (1,)})


def concat(shapes: List[Shape]) -> LayerSpec:
    """Inputs one after the other along the channels."""
    if len({shape[1:] for shape in shapes}) != 1:
        raise GraphError("cannot concatenate shapes %s along the channels" % ", ".join(map(str, shapes)))
    return LayerSpec((sum(shape[0] for shape in shapes), *shapes[0][1:]))


def attention(shapes: List[Shape], heads: int = 1, scale: Union[float, None] = None) -> LayerSpec:
    """Self-attention of three inputs, query, key and value, each (channels, positions…), without weights of its own.

    Channels are cut into `heads` consecutive parts; per head, out[:, i] = Σ_j softmax_j(scale·q[:, i]·k[:, j])·v[:, j]
    over all positions j. `scale` is 1/sqrt(query channels per head) unless given.
    """
    query, key, value = _inputs(shapes, 3)
    _positive(heads=heads)
    if query != key or query[1:] != value[1:] or len(query) < 2:
        raise GraphError("query %r, key %r and value %r do not fit" % (query, key, value))
    if query[0] % heads or value[0] % heads:
        raise GraphError("%d heads do not divide %d and %d channels" % (heads, query[0], value[0]))
    factor = (query[0] // heads) ** -0.5 if scale is None else float(scale)
    return LayerSpec(value, {"heads": heads, "scale": factor})


def flatten(shapes: List[Shape]) -> LayerSpec:
    """All elements of a sample as one vector."""
    (shape,) = _inputs(shapes, 1)
    return LayerSpec((size(shape),))


def reshape(shapes: List[Shape], shape: Sequence[int]) -> LayerSpec:
    """The same elements in the same order under another shape."""
    (given,), wanted = _inputs(shapes, 1), tuple(shape)
    if size(wanted) != size(given) or min(wanted) < 1:
        raise GraphError("cannot reshape %r to %r" % (given, wanted))
    return LayerSpec(wanted, {"shape": wanted})


def upsample(shapes: List[Shape], factor: Window) -> LayerSpec:
    """Each element repeated `factor` times along each spatial dimension: out[i] = in[i // factor]."""
    channels, *extents = _features(shapes)
    factor = _per_dimension(factor, len(extents))
    return LayerSpec((channels, *(n * f for n, f in zip(extents, factor))), {"factor": factor})


def embedding(shapes: List[Shape], tokens: int, width: int) -> LayerSpec:
    """Row t of the weight for each token t, a whole number below `tokens`: (positions,) becomes (positions, width)."""
    (shape,) = _inputs(shapes, 1)
    _positive(tokens=tokens, width=width)
    if len(shape) != 1:
        raise GraphError("needs tokens along one dimension, not samples of shape %r" % (shape,))
    return LayerSpec((*shape, width), {"tokens": tokens, "width": width}, {"weight": (tokens, width)})


def position_embedding(shapes: List[Shape], rows: Union[int, None] = None) -> LayerSpec:
    """Row floor(i·rows/positions) of the weight added to position i; weight (rows, width).

    By default there is a row for each position; two rows are the two segments of a pair of texts.
    """
    positions, width = _sequence(shapes)
    rows = positions if rows is None else rows
    if not 1 <= rows <= positions:
        raise GraphError("%d rows for %d positions: from 1 to one each" % (rows, positions))
    return LayerSpec((positions, width), {"rows": rows}, {"weight": (rows, width)})


def class_token(shapes: List[Shape]) -> LayerSpec:
    """A trainable row before the first position; weight (1, width)."""
    positions, width = _sequence(shapes)
    return LayerSpec((positions + 1, width), {}, {"weight": (1, width)})


def sequence(shapes: List[Shape]) -> LayerSpec:
    """The positions one after the other, each with its channels: (channels, …) becomes (positions, channels)."""
    channels, *extents = _features(shapes)
    return LayerSpec((size(extents), channels))


def part(shapes: List[Shape], start: int, stop: int) -> LayerSpec:
    """Entries `start` up to, not including, `stop` of the first dimension: channels, or positions of a sequence."""
    (shape,) = _inputs(shapes, 1)
    if not 0 <= start < stop <= shape[0]:
        raise GraphError("entries %d to %d are not within the %d of %r" % (start, stop, shape[0], shape))
    return LayerSpec((stop - start, *shape[1:]), {"start": start, "stop": stop})


def self_attention(shapes: List[Shape], heads: int, causal: bool = False) -> LayerSpec:
    """Multi-head attention of a sequence to itself; queries, keys and values stand side by side, (positions, 3·width).

    Each third is cut into `heads` consecutive parts of d; per head, out[i] = Σ_j softmax_j(q[i]·k[j]/√d)·v[j] over all
    positions j, or over j ≤ i if `causal` (A. Vaswani et al., "Attention is all you need", NIPS 2017).
    """
    positions, packed = _sequence(shapes)
    _positive(heads=heads)
    if packed % (3 * heads):
        raise GraphError("%d features are not three times a width that %d heads divide" % (packed, heads))
    return LayerSpec((positions, packed // 3), {"heads": heads, "causal": bool(causal)})


def tied_dense(shapes: List[Shape], to: str, units: int) -> LayerSpec:
    """x·Wᵀ over the last dimension, W being the weight of the layer `to`, (units, features): trained in both places."""
    (shape,) = _inputs(shapes, 1)
    return LayerSpec((*shape[:-1], units), {"to": to, "units": units})


KINDS: Dict[str, Callable[..., LayerSpec]] = {
    "conv": conv,
    "dense": dense,
    "max_pool": pool,
    "avg_pool": pool,
    "adaptive_avg_pool": adaptive_avg_pool,
    "global_avg_pool": global_avg_pool,
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "activation": activation,
    "dropout": dropout,
    "drop_path": drop_path,
    "add": add,
    "multiply": multiply,
    "scale": scale,
    "concat": concat,
    "attention": attention,
    "flatten": flatten,
    "reshape": reshape,
    "upsample": upsample,
    "embedding": embedding,
    "position_embedding": position_embedding,
    "class_token": class_token,
    "sequence": sequence,
    "part": part,
    "self_attention": self_attention,
    "tied_dense": tied_dense,
}


def _inputs(shapes: List[Shape], number: int) -> List[Shape]:
    if len(shapes) != number:
        raise GraphError("takes %d inputs, not %d" % (number, len(shapes)))
    return shapes


def _features(shapes: List[Shape]) -> Shape:
    """The only input, which must have positions besides its channels."""
    (shape,) = _inputs(shapes, 1)
    if not 2 <= len(shape) <= 4:
        raise GraphError("needs channels and 1 to 3 spatial dimensions, not shape %r" % (shape,))
    return shape


def _sequence(shapes: List[Shape]) -> Tuple[int, int]:
    """The positions and the width of the only input."""
    (shape,) = _inputs(shapes, 1)
    if len(shape) != 2:
        raise GraphError("needs a sequence, (positions, width), not shape %r" % (shape,))
    return shape[0], shape[1]


def _positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise GraphError("%s must be at least 1, not %r" % (name, value))


def _per_dimension(value: Window, dimensions: int) -> Shape:
    values = (value,) * dimensions if isinstance(value, int) else tuple(value)
    if len(values) != dimensions or min(values) < 1:
        raise GraphError("%r is no window for %d dimensions" % (value, dimensions))
    return values


def _window(dimensions: int, kernel: Window, stride: Window, padding: Padding) -> Tuple[Shape, Shape, Pads]:
    extents = _per_dimension(kernel, dimensions)
    return extents, _per_dimension(stride, dimensions), _pads(padding, extents)


def _pads(padding: Padding, kernel: Shape) -> Pads:
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        return same_pads(kernel)
    if isinstance(padding, str):
        raise GraphError("unknown padding %r; known: valid, same, numbers" % padding)
    pads = ((padding, padding),) * len(kernel) if isinstance(padding, int) else tuple((a, b) for a, b in padding)
    if len(pads) != len(kernel) or min(map(min, pads)) < 0:
        raise GraphError("%r is no padding for %d dimensions" % (padding, len(kernel)))
    return pads


def _slide(extents: Sequence[int], kernel: Shape, stride: Shape, pads: Pads) -> Shape:
    """The extents after a window has slid over them."""
    spaces = [extent + before + after - k for extent, k, (before, after) in zip(extents, kernel, pads)]
    if min(spaces) < 0:
        text = "x".join(map(str, extents))
        raise GraphError("a window of %s does not fit an input of %s" % ("x".join(map(str, kernel)), text))
    return tuple(space // s + 1 for space, s in zip(spaces, stride))
