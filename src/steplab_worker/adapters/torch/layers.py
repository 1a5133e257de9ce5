"""The neutral graph as a PyTorch module: each kind of layer built from PyTorch's own layers.

`build_module(graph, weights)` is also the reference that other frameworks are compared with.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from steplab_worker.adapters.torch.attention import Attention, SelfAttention
from steplab_worker.graph import INPUT, Graph, Layer, Shape, size

ACTIVATIONS: Dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
}
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
MAX_POOLS = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
AVG_POOLS = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
ADAPTIVE_POOLS = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}
NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm2d, 4: nn.BatchNorm3d}
# PyTorch's names for what the graph calls mean and variance.
BUFFERS = {"mean": "running_mean", "variance": "running_var"}


def build_module(graph: Graph, weights: Mapping[Tuple[str, str], np.ndarray]) -> "GraphModule":
    """The network as a module, with every weight and buffer taken from `weights`."""
    return filled(GraphModule(graph), weights)


def filled(module: "GraphModule", weights: Mapping[Tuple[str, str], np.ndarray]) -> "GraphModule":
    """The same module with these weights and buffers."""
    for (layer, name), array in weights.items():
        module.set_array(layer, name, array)
    return module


def named_arrays(module: "GraphModule") -> Dict[Tuple[str, str], torch.nn.Parameter]:
    """The trainable parameters under the graph's names, (layer, weight); their `.grad` holds the gradients."""
    keys = [(layer.name, name) for layer in module.description.layers for name in layer.weights]
    return {key: module.parameter(*key) for key in keys}


class GraphModule(nn.Module):
    """Runs a graph: one child per layer, of the layer's name."""

    def __init__(self, graph: Graph):
        super().__init__()
        self.description = graph  # TorchScript keeps something else under `graph`
        shapes = graph.shapes()
        for layer in graph.layers:
            self.add_module(layer.name, LAYERS[layer.kind](layer, [shapes[name] for name in layer.inputs]))
            if layer.kind == "tied_dense":
                self._modules[layer.name].weight = self.parameter(*layer.weight_keys["weight"])
        self.steps = [(layer.name, layer.inputs, _finished(graph, i)) for i, layer in enumerate(graph.layers)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output of the last layer."""
        values = {INPUT: x}
        for name, inputs, finished in self.steps:
            values[name] = self._modules[name](*[values[source] for source in inputs])
            # Without this, inference would hold every activation until the end.
            for source in finished:
                del values[source]
        return values[self.steps[-1][0]]

    def layers(self) -> Dict[str, nn.Module]:
        """The module of each layer."""
        return dict(self.named_children())

    def parameter(self, layer: str, name: str) -> torch.nn.Parameter:
        """The tensor that holds a layer's weight or buffer."""
        child = self.layers()[layer]
        return getattr(getattr(child, "core", child), BUFFERS.get(name, name))

    def set_array(self, layer: str, name: str, array: np.ndarray) -> None:
        """Copy an array into a layer's weight or buffer."""
        target = self.parameter(layer, name)
        if tuple(target.shape) != array.shape:
            raise ValueError("%s.%s has shape %r, not %r" % (layer, name, tuple(target.shape), array.shape))
        with torch.no_grad():
            target.copy_(torch.from_numpy(array))


def _finished(graph: Graph, index: int) -> List[str]:
    """The values that no layer after this one needs."""
    later = {name for layer in graph.layers[index + 1 :] for name in layer.inputs}
    return sorted(set(graph.layers[index].inputs) - later)


class Padded(nn.Module):
    """A layer over an input padded unequally, which PyTorch's own padding cannot say."""

    def __init__(self, core: nn.Module, pads: Sequence[Tuple[int, int]], value: float):
        super().__init__()
        self.core, self.value = core, value
        # functional.pad begins with the last dimension.
        self.pads = [amount for pair in reversed(pads) for amount in pair]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.core(functional.pad(x, self.pads, value=self.value))


class UnequalAvgPool(nn.Module):
    """Mean over windows of an unequally padded input: padded elements do not count."""

    def __init__(self, pool: nn.Module, shape: Shape, elements: int):
        super().__init__()
        self.pool, self.elements = pool, elements
        with torch.no_grad():
            counts = (pool(torch.ones((1, *shape))) * elements).round()
        self.register_buffer("counts", counts, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x) * self.elements / self.counts


class GlobalAvgPool(nn.Module):
    """Mean over all positions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).mean(2)


class DropPath(nn.Module):
    """Dropout of whole samples."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or not self.rate:
            return x
        ones = torch.ones((x.shape[0],) + (1,) * (x.dim() - 1), dtype=x.dtype, device=x.device)
        return x * functional.dropout(ones, self.rate)


class Add(nn.Module):
    """Sum of the inputs."""

    def forward(self, first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        for other in others:
            first = first + other
        return first


class Multiply(nn.Module):
    """Product; a vector of channels scales each channel."""

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return first * second.reshape(second.shape + (1,) * (first.dim() - second.dim()))


class Scale(nn.Module):
    """Product with one trainable number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


class Concat(nn.Module):
    """Inputs one after the other along the channels."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat(inputs, 1)


class PositionEmbedding(nn.Module):
    """A trainable row added to each position, or to each of a few equal parts of the positions."""

    def __init__(self, rows: int, positions: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, width))
        self.register_buffer("rows", torch.arange(positions) * rows // positions, persistent=False)
        self.one_each = rows == positions

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (self.weight if self.one_each else self.weight[self.rows])


class ClassToken(nn.Module):
    """A trainable row before the first position."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.weight.expand(x.shape[0], 1, -1), x], 1)


class InSequence(nn.Module):
    """The positions one after the other, each with its channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).transpose(1, 2)


class Part(nn.Module):
    """Some entries of the first dimension."""

    def __init__(self, start: int, stop: int):
        super().__init__()
        self.start, self.stop = start, stop

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, self.start : self.stop]


class TiedDense(nn.Module):
    """A projection by the weight of another layer, which is set when that is there."""

    weight: nn.Parameter

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight)


class Reshape(nn.Module):
    """The same elements under another shape."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape((x.shape[0], *self.shape))


def _equal(pads: Sequence[Tuple[int, int]]) -> bool:
    return all(before == after for before, after in pads)


def _before(pads: Sequence[Tuple[int, int]]) -> Tuple[int, ...]:
    return tuple(before for before, _ in pads)


def _conv(layer: Layer, shapes: List[Shape]) -> nn.Module:
    options, pads = layer.options, layer.options["padding"]
    padding = _before(pads) if _equal(pads) else 0
    convolution = CONVOLUTIONS[len(pads)](
        shapes[0][0], options["filters"], options["kernel"], options["stride"], padding,
        groups=options["groups"], bias=options["bias"],
    )  # fmt: skip
    return convolution if _equal(pads) else Padded(convolution, pads, 0.0)


def _dense(layer: Layer, shapes: List[Shape]) -> nn.Module:
    return nn.Linear(shapes[0][-1], layer.options["units"], bias=layer.options["bias"])


def _native(pads: Sequence[Tuple[int, int]], kernel: Shape) -> bool:
    """Whether PyTorch's own pooling accepts the padding: equal on both sides, at most half the window."""
    return _equal(pads) and all(2 * before <= k for (before, _), k in zip(pads, kernel))


def _max_pool(layer: Layer, shapes: List[Shape]) -> nn.Module:
    kernel, stride, pads = (layer.options[name] for name in ("kernel", "stride", "padding"))
    pool = MAX_POOLS[len(kernel)]
    return pool(kernel, stride, _before(pads)) if _native(pads, kernel) else Padded(pool(kernel, stride), pads, -np.inf)


def _avg_pool(layer: Layer, shapes: List[Shape]) -> nn.Module:
    kernel, stride, pads = (layer.options[name] for name in ("kernel", "stride", "padding"))
    pool = AVG_POOLS[len(kernel)]
    if _native(pads, kernel):
        return pool(kernel, stride, _before(pads), count_include_pad=False)
    return UnequalAvgPool(Padded(pool(kernel, stride), pads, 0.0), shapes[0], size(kernel))


def _adaptive_avg_pool(layer: Layer, shapes: List[Shape]) -> nn.Module:
    return ADAPTIVE_POOLS[len(layer.options["outputs"])](layer.options["outputs"])


def _batch_norm(layer: Layer, shapes: List[Shape]) -> nn.Module:
    norm = NORMS[len(layer.shape)]
    return norm(layer.shape[0], eps=layer.options["epsilon"], momentum=layer.options["momentum"])


# A constructor takes the layer and the shapes of its inputs, without the batch.
LAYERS: Dict[str, Callable[[Layer, List[Shape]], nn.Module]] = {
    "conv": _conv,
    "dense": _dense,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive_avg_pool,
    "global_avg_pool": lambda layer, shapes: GlobalAvgPool(),
    "batch_norm": _batch_norm,
    "layer_norm": lambda layer, shapes: nn.LayerNorm(layer.shape[-1], eps=layer.options["epsilon"]),
    "activation": lambda layer, shapes: ACTIVATIONS[layer.options["function"]](),
    "dropout": lambda layer, shapes: nn.Dropout(layer.options["rate"]),
    "drop_path": lambda layer, shapes: DropPath(layer.options["rate"]),
    "add": lambda layer, shapes: Add(),
    "multiply": lambda layer, shapes: Multiply(),
    "scale": lambda layer, shapes: Scale(),
    "concat": lambda layer, shapes: Concat(),
    "attention": lambda layer, shapes: Attention(layer.options["heads"], layer.options["scale"]),
    "flatten": lambda layer, shapes: nn.Flatten(),
    "reshape": lambda layer, shapes: Reshape(layer.options["shape"]),
    "upsample": lambda layer, shapes: nn.Upsample(scale_factor=layer.options["factor"], mode="nearest"),
    "embedding": lambda layer, shapes: nn.Embedding(layer.options["tokens"], layer.options["width"]),
    "position_embedding": lambda layer, shapes: PositionEmbedding(layer.options["rows"], *layer.shape),
    "class_token": lambda layer, shapes: ClassToken(layer.shape[1]),
    "sequence": lambda layer, shapes: InSequence(),
    "part": lambda layer, shapes: Part(layer.options["start"], layer.options["stop"]),
    "self_attention": lambda layer, shapes: SelfAttention(layer.options["heads"], layer.options["causal"]),
    "tied_dense": lambda layer, shapes: TiedDense(),
}
