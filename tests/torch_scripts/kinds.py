"""Computes single layers twice, with PyTorch's layers and with NumPy from the definitions; gives the errors."""

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np


def windows(x, kernel, stride, pads, fill):
    """All windows: (batch, channels, *positions, *kernel)."""
    x = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=tuple(range(2, x.ndim)))
    steps = tuple(slice(None, None, s) for s in stride)
    return view[(slice(None), slice(None), *steps)]


def conv(layer, inputs, weights):
    o, dims = layer.options, len(layer.options["kernel"])
    kernel, groups = weights["weight"], layer.options["groups"]
    view = windows(inputs[0], o["kernel"], o["stride"], o["padding"], 0.0)
    parts = []
    for x, w in zip(np.split(view, groups, axis=1), np.split(kernel, groups, axis=0), strict=True):
        axes = [1, *range(2 + dims, 2 + 2 * dims)]
        parts.append(np.moveaxis(np.tensordot(x, w, axes=(axes, list(range(1, 2 + dims)))), -1, 1))
    bias = weights.get("bias", np.zeros(kernel.shape[0]))
    return np.concatenate(parts, axis=1) + bias.reshape((-1,) + (1,) * dims)


def pool(layer, inputs, weights):
    o, dims = layer.options, len(layer.options["kernel"])
    fill, reduce = (-np.inf, np.max) if layer.kind == "max_pool" else (np.nan, np.nanmean)
    view = windows(inputs[0], o["kernel"], o["stride"], o["padding"], fill)
    return reduce(view, axis=tuple(range(2 + dims, 2 + 2 * dims)))


def adaptive_avg_pool(layer, inputs, weights):
    from steplab_worker.layers import adaptive_bins

    x, outputs = inputs[0], layer.options["outputs"]
    made = np.empty(x.shape[:2] + tuple(outputs))
    bins = [adaptive_bins(extent, n) for extent, n in zip(x.shape[2:], outputs, strict=True)]
    for place in itertools.product(*map(range, outputs)):
        cut = tuple(slice(*bins[d][i]) for d, i in enumerate(place))
        made[(slice(None), slice(None), *place)] = x[(slice(None), slice(None), *cut)].mean(tuple(range(2, x.ndim)))
    return made


def norm(layer, inputs, weights):
    x = inputs[0]
    batch = layer.kind == "batch_norm"
    axes = tuple(i for i in range(x.ndim) if i != 1) if batch else (-1,)
    centred = x - x.mean(axes, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + layer.options["epsilon"])
    shape = (-1,) + (1,) * (x.ndim - 2) if batch else (-1,)
    return scaled * weights["weight"].reshape(shape) + weights["bias"].reshape(shape)


def attention(layer, inputs, weights):
    heads, shape = layer.options["heads"], inputs[2].shape
    q, k, v = (x.reshape(x.shape[0], heads, x.shape[1] // heads, -1) for x in inputs)
    scores = np.einsum("nhci,nhcj->nhij", q, k) * layer.options["scale"]
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return np.einsum("nhij,nhcj->nhci", shares, v).reshape(shape)


def multiply(layer, inputs, weights):
    first, second = inputs
    return first * second.reshape(second.shape + (1,) * (first.ndim - second.ndim))


def upsample(layer, inputs, weights):
    x = inputs[0]
    for axis, factor in enumerate(layer.options["factor"], start=2):
        x = np.repeat(x, factor, axis)
    return x


def activation(layer, inputs, weights):
    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    table = {
        "relu": lambda x: np.maximum(x, 0),
        "tanh": np.tanh,
        "sigmoid": sigmoid,
        "silu": lambda x: x * sigmoid(x),
        "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
        "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    }
    return table[layer.options["function"]](inputs[0])


def position_embedding(layer, inputs, weights):
    positions, rows = layer.shape[0], layer.options["rows"]
    return inputs[0] + np.stack([weights["weight"][math.floor(i * rows / positions)] for i in range(positions)])


def class_token(layer, inputs, weights):
    return np.stack([np.concatenate([weights["weight"], sample]) for sample in inputs[0]])


def self_attention(layer, inputs, weights):
    (positions, width), heads = layer.shape, layer.options["heads"]
    d = width // heads
    made = np.zeros((len(inputs[0]), positions, width))
    for n, head, i in itertools.product(range(len(made)), range(heads), range(positions)):
        q, k, v = (inputs[0][n, :, part * width + head * d :][:, :d] for part in range(3))
        seen = i + 1 if layer.options["causal"] else positions
        shares = np.exp(k[:seen] @ q[i] / math.sqrt(d))
        made[n, i, head * d : (head + 1) * d] = shares @ v[:seen] / shares.sum()
    return made


DEFINED = {
    "conv": conv,
    "dense": lambda layer, inputs, weights: inputs[0] @ weights["weight"].T + weights.get("bias", 0),
    "max_pool": pool,
    "avg_pool": pool,
    "adaptive_avg_pool": adaptive_avg_pool,
    "global_avg_pool": lambda layer, inputs, weights: inputs[0].mean(tuple(range(2, inputs[0].ndim))),
    "batch_norm": norm,
    "layer_norm": norm,
    "activation": activation,
    "dropout": lambda layer, inputs, weights: inputs[0],
    "drop_path": lambda layer, inputs, weights: inputs[0],
    "add": lambda layer, inputs, weights: sum(inputs),
    "multiply": multiply,
    "scale": lambda layer, inputs, weights: inputs[0] * weights["weight"],
    "concat": lambda layer, inputs, weights: np.concatenate(inputs, axis=1),
    "attention": attention,
    "flatten": lambda layer, inputs, weights: inputs[0].reshape(len(inputs[0]), -1),
    "reshape": lambda layer, inputs, weights: inputs[0].reshape((len(inputs[0]), *layer.options["shape"])),
    "upsample": upsample,
    "embedding": lambda layer, inputs, weights: weights["weight"][inputs[0]],
    "position_embedding": position_embedding,
    "class_token": class_token,
    "sequence": lambda layer, inputs, weights: np.moveaxis(inputs[0].reshape(*inputs[0].shape[:2], -1), 1, 2),
    "part": lambda layer, inputs, weights: inputs[0][:, layer.options["start"] : layer.options["stop"]],
    "self_attention": self_attention,
    "tied_dense": lambda layer, inputs, weights: inputs[0] @ weights["weight"].T,
}


def error(kind, shapes, options):
    import torch

    from steplab_worker.adapters.torch.layers import LAYERS
    from steplab_worker.graph import Layer
    from steplab_worker.layers import KINDS

    shapes = [tuple(shape) for shape in shapes]
    made = KINDS[kind](shapes, **options)
    names = tuple(f"x{i}" for i in range(len(shapes)))
    layer = Layer("layer", kind, names, made.shape, made.options, made.weights, made.buffers)
    rng = np.random.default_rng(3)
    inputs = [rng.normal(size=(4, *shape)) for shape in shapes]
    if kind == "embedding":
        inputs = [rng.integers(0, options["tokens"], (4, *shapes[0]))]
    weights = {name: rng.normal(size=shape) for name, shape in made.weights.items()}
    module = LAYERS[kind](layer, shapes).train(kind not in ("dropout", "drop_path"))
    core = getattr(module, "core", module)
    if kind == "tied_dense":  # its weight is another layer's
        weights["weight"] = rng.normal(size=(options["units"], shapes[0][-1]))
        core.weight = torch.nn.Parameter(torch.empty(weights["weight"].shape))
    module.double()
    with torch.no_grad():
        for name, array in weights.items():
            getattr(core, name).copy_(torch.from_numpy(array))
        got = module(*[torch.from_numpy(x) for x in inputs]).numpy()
    want = DEFINED[kind](layer, inputs, weights)
    assert got.shape == want.shape == (4, *made.shape), (kind, got.shape, want.shape, made.shape)
    return float(np.abs(got - want).max())


def main():
    errors = [error(*case) for case in json.load(sys.stdin)]
    Path(sys.argv[1]).write_text(json.dumps(errors))


if __name__ == "__main__":
    main()
