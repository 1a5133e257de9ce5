"""Initial weights, made with NumPy from a seed, so that every framework starts from the same numbers."""

from __future__ import annotations

import zlib
from typing import Dict, Tuple

import numpy as np

from .graph import Graph, Layer, Shape, size

Key = Tuple[str, str]  # (layer, weight)


def initial_weights(graph: Graph, seed: int) -> Dict[Key, np.ndarray]:
    """All trainable weights and buffers of a graph, float32.

    Uniform in ±1/sqrt(fan-in) for kernels and their biases (the default of PyTorch's layers); one and zero for
    normalisation. Each array has its own stream, so adding a layer does not change the others.
    """
    weights = {}
    for layer in graph.layers:
        for name, shape in list(layer.weights.items()) + list(layer.buffers.items()):
            weights[layer.name, name] = _initial(layer, name, shape, seed)
    return weights


def _initial(layer: Layer, name: str, shape: Shape, seed: int) -> np.ndarray:
    if layer.kind.endswith("_norm"):
        return np.full(shape, 1.0 if name in ("weight", "variance") else 0.0, dtype=np.float32)
    if layer.kind == "scale":
        return np.full(shape, layer.options["initial"], dtype=np.float32)
    fan_in = size(layer.weights["weight"][1:])
    stream = zlib.crc32(("%s/%s" % (layer.name, name)).encode())
    numbers = np.random.default_rng([seed, stream]).random(shape, dtype=np.float32)
    numbers *= np.float32(2)
    numbers -= np.float32(1)
    numbers *= np.float32(fan_in**-0.5)
    return numbers
