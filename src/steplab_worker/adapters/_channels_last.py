"""The graph's arrays in the layout that TensorFlow's and XLA's CPU kernels want: channels last.

The graph puts channels first; kernels of (filters, channels, *window) become (*window, channels, filters), dense
weights (units, features) become (features, units). A flatten that only dense layers read gives its elements as they
lie, and the features of those layers are ordered alike: so the frameworks' users have it, and nothing is transposed.
Everything else is the same in both layouts.

Sequences, (positions, width), have their features last already and stay as they are. They begin with an embedding or
where positions are put into a sequence; a layer that can work on either layout keeps that of its inputs.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from steplab_worker.graph import Graph, Layer, Shape
from steplab_worker.layers import adaptive_bins
from steplab_worker.weights import Key

Pads = Sequence[Tuple[int, int]]
BEGIN_SEQUENCES = ("embedding", "sequence")
ON_SEQUENCES = ("position_embedding", "class_token", "self_attention", "tied_dense")  # whatever they are given
BY_ELEMENT = ("activation", "dropout")  # the order of a vector goes through them
KEEP_SEQUENCES = ("layer_norm", "dense", "activation", "dropout", "drop_path", "add", "scale", "concat", "part")


def inward(layer: Layer, name: str, array: np.ndarray, flattened: Optional[Shape] = None) -> np.ndarray:
    """An array of the graph, as the framework holds it; `flattened` is the shape whose elements are the features."""
    if name != "weight" or layer.kind not in ("conv", "dense"):
        return array
    if flattened is not None:
        array = np.moveaxis(array.reshape(-1, *flattened), 1, -1).reshape(array.shape)
    return np.ascontiguousarray(np.moveaxis(array, (0, 1), (-1, -2)))


def outward(layer: Layer, name: str, array: np.ndarray, flattened: Optional[Shape] = None) -> np.ndarray:
    """The inverse of `inward`."""
    if name != "weight" or layer.kind not in ("conv", "dense"):
        return array
    array = np.moveaxis(array, (-1, -2), (0, 1))
    if flattened is not None:
        channels, *positions = flattened
        array = np.moveaxis(array.reshape(-1, *positions, channels), -1, 1).reshape(array.shape)
    return np.ascontiguousarray(array)


def as_they_lie(graph: Graph) -> Dict[str, Shape]:
    """Flattens whose order only dense layers see, and those layers, each with the shape that is flattened."""
    shapes, held = graph.shapes(), sequences(graph)
    loose: Dict[str, Shape] = {}
    for layer in graph.layers:
        if layer.kind == "flatten" and layer.inputs[0] not in held and not same_order(shapes[layer.inputs[0]]):
            readers = _dense_readers(graph, layer.name)
            loose.update(dict.fromkeys([layer.name, *readers] if readers else [], shapes[layer.inputs[0]]))
    return loose


def _dense_readers(graph: Graph, name: str) -> List[str]:
    """The dense layers that read a layer's elements; none if something else reads them, too, or they are the output."""
    dense: List[str] = []
    readers = [layer for layer in graph.layers if name in layer.inputs]
    for reader in readers:
        further = [reader.name] if reader.kind == "dense" else []
        if reader.kind in BY_ELEMENT:
            further = _dense_readers(graph, reader.name)
        if not further:
            return []
        dense += further
    return dense


def sequences(graph: Graph) -> Set[str]:
    """The layers whose outputs are sequences."""
    givers: Set[str] = set()
    for layer in graph.layers:
        if layer.kind in BEGIN_SEQUENCES or takes_sequences(layer, givers):
            givers.add(layer.name)
    return givers


def takes_sequences(layer: Layer, givers: Set[str]) -> bool:
    """Whether a layer works on sequences, these layers giving such."""
    return layer.kind in ON_SEQUENCES or (layer.kind in KEEP_SEQUENCES and givers.issuperset(layer.inputs))


def weight_keys(graph: Graph) -> List[Key]:
    """The keys of the trainable weights, in the graph's order."""
    return [(layer.name, name) for layer in graph.layers for name in layer.weights]


def buffer_keys(graph: Graph) -> List[Key]:
    """The keys of the other state, in the graph's order."""
    return [(layer.name, name) for layer in graph.layers for name in layer.buffers]


def all_inward(graph: Graph, keys: Sequence[Key], arrays: Dict[Key, np.ndarray]) -> Dict[Key, np.ndarray]:
    """Arrays under these keys as the framework holds them."""
    layers = {layer.name: layer for layer in graph.layers}
    loose = as_they_lie(graph)
    return {key: inward(layers[key[0]], key[1], arrays[key], loose.get(key[0])) for key in keys}


def all_outward(graph: Graph, arrays: Dict[Key, np.ndarray]) -> Dict[Key, np.ndarray]:
    """Arrays as the graph lays them out."""
    layers = {layer.name: layer for layer in graph.layers}
    loose = as_they_lie(graph)
    return {key: outward(layers[key[0]], key[1], array, loose.get(key[0])) for key, array in arrays.items()}


def first_axes(rank: int) -> Tuple[int, ...]:
    """The transposition of (batch, …, channels) to (batch, channels, …).

    >>> first_axes(4)
    (0, 3, 1, 2)
    """
    return (0, rank - 1, *range(1, rank - 1)) if rank > 2 else tuple(range(rank))


def last_axes(rank: int) -> Tuple[int, ...]:
    """The transposition of (batch, channels, …) to (batch, …, channels).

    >>> last_axes(4)
    (0, 2, 3, 1)
    """
    return (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))


def same_order(shape: Shape) -> bool:
    """Whether a sample's elements have the same order in both layouts: one channel, one position, or a vector.

    >>> same_order((1, 28, 28)), same_order((16, 1, 1)), same_order((16, 5, 5))
    (True, True, False)
    """
    return shape[0] == 1 or all(extent == 1 for extent in shape[1:])


def padding_name(extents: Sequence[int], kernel: Shape, stride: Shape, pads: Pads) -> str:
    """`VALID` or `SAME` if TensorFlow's rule of that name gives these pads, else an empty string.

    SAME pads (ceil(n/s) − 1)·s + k − n elements in all, the odd one behind.

    >>> padding_name((28, 28), (5, 5), (1, 1), ((2, 2), (2, 2))), padding_name((224,), (7,), (2,), ((3, 3),))
    ('SAME', '')
    """
    if not any(before or after for before, after in pads):
        return "VALID"
    totals = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(extents, kernel, stride)]
    same = tuple((total // 2, total - total // 2) for total in totals)
    return "SAME" if same == tuple(tuple(pair) for pair in pads) else ""


def bin_matrix(extent: int, outputs: int) -> np.ndarray:
    """Adaptive mean pooling along one dimension as a matrix (extent, outputs)."""
    matrix = np.zeros((extent, outputs), dtype=np.float32)
    for column, (start, stop) in enumerate(adaptive_bins(extent, outputs)):
        matrix[start:stop, column] = 1.0 / (stop - start)
    return matrix


def window_counts(extents: Sequence[int], kernel: Shape, stride: Shape, pads: Pads) -> np.ndarray:
    """How many true elements each window of an average pooling holds, with a last axis for the channels."""
    counts = np.ones((), dtype=np.float32)
    for n, k, s, (before, after) in zip(extents, kernel, stride, pads):
        starts = np.arange(0, n + before + after - k + 1, s) - before
        held = np.minimum(starts + k, n) - np.maximum(starts, 0)
        counts = counts[..., None] * held.astype(np.float32)
    return counts[..., None]
