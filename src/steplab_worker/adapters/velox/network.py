"""A network's forward pass as a sequence of Velox plans.

All arithmetic is done in plans. A plan computes one contraction or pooling and every element-wise layer that follows
it (bias, batch normalisation with the running values, activation, residual addition). Between plans the results are
only rearranged, with NumPy copies: windows of a convolution, flattening, concatenation, up-sampling.

A tensor is kept as (channels, batch, positions…), because that is the order in which plans give their rows.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from steplab_worker.adapter import Unsupported
from steplab_worker.adapters.velox import plans as plans
from steplab_worker.graph import INPUT, Graph, Layer, Shape
from steplab_worker.layers import adaptive_bins, size
from steplab_worker.weights import Key

Weights = Mapping[Key, np.ndarray]
Tensors = Dict[str, np.ndarray]
CONTRACTIONS = ("conv", "dense")
POOLS = {"max_pool": "array_max", "avg_pool": "array_average"}
ELEMENTWISE = ("batch_norm", "activation", "add", "multiply", "scale")
IDENTITIES = ("dropout", "drop_path")
# Bytes of the largest operand of a plan; a bigger batch goes through the network in parts.
OPERAND_BYTES = 64 << 20

SIGMOID = "(CAST(1 AS DOUBLE) / (CAST(1 AS DOUBLE) + exp(CAST(0 AS DOUBLE) - CAST({y} AS DOUBLE))))"
ACTIVATIONS = {
    "relu": "greatest({y}, CAST(0 AS REAL))",
    "tanh": "CAST(tanh(CAST({y} AS DOUBLE)) AS REAL)",
    "sigmoid": "CAST(" + SIGMOID + " AS REAL)",
    "silu": "CAST(CAST({y} AS DOUBLE) * " + SIGMOID + " AS REAL)",
}


class Network:
    """A graph prepared for batches of one size."""

    def __init__(self, graph: Graph, weights: Weights, batch: int, formulation: str = "auto"):
        self.graph, self.batch = graph, batch
        part = _images_at_once(graph, batch)
        self.tensors: Tensors = {INPUT: np.zeros(_tensor(graph.input_shape, part), np.float32)}
        self.stages = _stages(graph, weights, self.tensors, formulation)
        self.part, self.last = part, _aliases(graph)[graph.layers[-1].name]
        self.samples = np.zeros((graph.input_shape[0], batch, *graph.input_shape[1:]), np.float32)
        self.results = np.zeros((batch, *graph.output_shape), np.float32)

    def load(self, samples: np.ndarray) -> None:
        """Bring samples (batch, channels, …) into the order in which plans read them."""
        np.copyto(self.samples, np.moveaxis(samples, 0, 1))

    def run(self) -> None:
        """Send the loaded samples through all plans."""
        for start in range(0, self.batch, self.part):
            stop = min(start + self.part, self.batch)
            self.tensors[INPUT][:, : stop - start] = self.samples[:, start:stop]
            for stage in self.stages:
                stage()
            self.results[start:stop] = np.moveaxis(self.tensors[self.last], 1, 0)[: stop - start]


def _images_at_once(graph: Graph, batch: int) -> int:
    """The batch cut into equal parts whose operands stay within OPERAND_BYTES."""
    shapes = graph.shapes()
    operand = max(4 * _operand_size(layer, shapes) for layer in graph.layers)
    most = max(1, min(batch, OPERAND_BYTES // operand))
    return math.ceil(batch / math.ceil(batch / most))


def _operand_size(layer: Layer, shapes: Mapping[str, Shape]) -> int:
    """The numbers that a layer's plan reads for one sample."""
    if layer.kind == "conv":
        return size(layer.shape[1:]) * shapes[layer.inputs[0]][0] * size(layer.options["kernel"])
    window = size(layer.options["kernel"]) if layer.kind in POOLS else 1
    return max(size(layer.shape) * window, *(size(shapes[name]) for name in layer.inputs))


def _tensor(shape: Shape, batch: int) -> Shape:
    return (shape[0], batch, *shape[1:])


def _aliases(graph: Graph) -> Dict[str, str]:
    """The tensor that holds each layer's output; layers that change nothing in inference have their input's."""
    held = {INPUT: INPUT}
    for layer in graph.layers:
        held[layer.name] = held[layer.inputs[0]] if layer.kind in IDENTITIES else layer.name
    return held


def _stages(graph: Graph, weights: Weights, tensors: Tensors, formulation: str) -> List[Callable[[], None]]:
    """The steps of a forward pass; each reads and writes tensors, which are made here."""
    held = _aliases(graph)
    stages: List[Callable[[], None]] = []
    layers = [layer for layer in graph.layers if layer.kind not in IDENTITIES]
    for chain in _chains(layers, held):
        inputs = [tensors[held[name]] for name in chain[0].inputs]
        batch = inputs[0].shape[1]
        result = tensors[chain[-1].name] = np.zeros(_tensor(chain[-1].shape, batch), np.float32)
        if chain[0].kind in MOVES:
            move = MOVES[chain[0].kind]
            stages.append(lambda move=move, layer=chain[0], inputs=inputs, out=result: move(layer, inputs, out))
        else:
            stages.append(_Computed(chain, held, weights, tensors, formulation))
    return stages


def _chains(layers: Sequence[Layer], held: Mapping[str, str]) -> List[List[Layer]]:
    """Layers grouped by plan: element-wise ones join the plan before them if nobody else reads its result."""
    readers = [held[name] for layer in layers for name in layer.inputs]
    chains: List[List[Layer]] = []
    for layer in layers:
        before = chains[-1][-1] if chains else None
        joins = (
            before is not None
            and layer.kind in ELEMENTWISE
            and before.kind not in MOVES
            and readers.count(before.name) == 1
            and before.name in [held[name] for name in (layer.inputs if layer.kind == "add" else layer.inputs[:1])]
        )
        if joins:
            chains[-1].append(layer)
        else:
            chains.append([layer])
    return chains


class _Computed:
    """One plan: a core layer and the element-wise layers after it."""

    def __init__(
        self, chain: Sequence[Layer], held: Mapping[str, str], weights: Weights, tensors: Tensors, formulation: str
    ):
        first, result = chain[0], tensors[chain[-1].name]
        source = tensors[held[first.inputs[0]]]
        core = _core(first, source, weights, formulation)
        finish = _Finish(weights, result.shape, core.groups)
        if "bias" in first.weights and first.kind in CONTRACTIONS:
            finish.constant("{y} + {e}", weights[first.name, "bias"])
        computed = held[first.inputs[0]] if first.kind in ELEMENTWISE else first.name
        for layer in chain if first.kind in ELEMENTWISE else chain[1:]:
            others = [held[name] for name in layer.inputs]
            others.remove(computed)
            finish.layer(layer, [tensors[name] for name in others])
            computed = layer.name
        self.gather, self.copies = core.gather, finish.copies
        self.plan = plans.Plan(core.blocks, core.text, finish.text, finish.constants, finish.operands)
        self.result = _in_row_order(result, core.groups)
        # Rows that do not come by channel are brought into the tensor's order by a copy.
        self.rows = np.zeros(self.result.shape, np.float32) if core.groups else self.result

    def __call__(self) -> None:
        self.gather()
        for target, source in self.copies:
            np.copyto(target, source)
        self.plan.run(self.rows)
        if self.rows is not self.result:
            np.copyto(self.result, self.rows)


def _in_row_order(tensor: np.ndarray, groups: int) -> np.ndarray:
    """A view of a tensor in the order of a plan's rows: by channel, or by group, position and channel."""
    flat = tensor.reshape(len(tensor), -1)
    return flat.reshape(groups, len(tensor) // groups, -1).transpose(0, 2, 1) if groups else flat


class _Finish:
    """What follows a core in its plan: an expression of y, constants per channel, and other tensors."""

    def __init__(self, weights: Weights, shape: Shape, groups: int):
        self.weights, self.shape, self.groups = weights, shape, groups
        self.text = "y"
        self.constants: List[np.ndarray] = []
        self.operands: List[np.ndarray] = []
        self.copies: List[Tuple[np.ndarray, np.ndarray]] = []  # (target, source) before every run

    def constant(self, text: str, values: np.ndarray) -> None:
        """Apply a constant of each channel."""
        self.text = "(%s)" % text.format(y=self.text, e="e%d" % len(self.constants))
        self.constants.append(values)

    def operand(self, sign: str, tensor: np.ndarray) -> None:
        """Apply another tensor, which may be one number per channel and sample."""
        self.text = "(%s %s r%d)" % (self.text, sign, len(self.operands))
        if tensor.shape != self.shape:
            source = tensor.reshape(tensor.shape + (1,) * (len(self.shape) - tensor.ndim))
            tensor = self._copied(np.zeros(self.shape, np.float32), source)
        if self.groups:
            source = _in_row_order(tensor, self.groups)
            tensor = self._copied(np.zeros(source.shape, np.float32), source)
        self.operands.append(tensor)

    def _copied(self, target: np.ndarray, source: np.ndarray) -> np.ndarray:
        self.copies.append((target, source))
        return target

    def layer(self, layer: Layer, others: Sequence[np.ndarray]) -> None:
        """Apply an element-wise layer."""
        if layer.kind == "activation":
            self.text = ACTIVATIONS[layer.options["function"]].format(y=self.text)
        elif layer.kind == "batch_norm":
            scale, shift = _normalisation(layer, self.weights)
            self.constant("{y} * {e}", scale)
            self.constant("{y} + {e}", shift)
        elif layer.kind == "scale":
            self.constant("{y} * {e}", np.repeat(self.weights[layer.name, "weight"], self.shape[0]))
        else:
            for other in others:
                self.operand("+" if layer.kind == "add" else "*", other)


def _normalisation(layer: Layer, weights: Weights) -> Tuple[np.ndarray, np.ndarray]:
    """Inference-mode batch normalisation as y·scale + shift."""
    weight, bias, mean, variance = (
        weights[layer.name, name].astype(np.float64) for name in ("weight", "bias", "mean", "variance")
    )
    scale = weight / np.sqrt(variance + layer.options["epsilon"])
    return scale, bias - mean * scale


class Core:
    """A chain's first layer: how it gets its operands, and its part of the plan.

    `groups` is 0 if the plan's rows come by channel and position; otherwise they come by group, position, channel.
    """

    def __init__(self, gather: Callable[[], Any], part: Tuple[List[plans.Block], str], groups: int = 0):
        self.gather, (self.blocks, self.text), self.groups = gather, part, groups


def _core(layer: Layer, source: np.ndarray, weights: Weights, formulation: str) -> Core:
    if layer.kind in ELEMENTWISE:
        return Core(lambda: None, plans.unchanged(source.reshape(len(source), -1)))
    if layer.kind in CONTRACTIONS:
        return _contraction(layer, source, weights[layer.name, "weight"], formulation)
    return _pooling(layer, source)


def _contraction(layer: Layer, source: np.ndarray, weight: np.ndarray, formulation: str) -> Core:
    """A convolution or a dense layer: its windows, as (groups, channels, window…, batch, positions…), by weights."""
    if layer.kind == "dense" and source.ndim > 2:
        raise Unsupported("Velox: a dense layer over the last of several dimensions is not built here")
    view = _windows(layer, source) if layer.kind == "conv" else lambda: source[None]
    shape, window = view().shape, view().ndim - (source.ndim - 1)
    matrix = weight.reshape(len(weight), -1).astype(np.float32)
    groups, positions = shape[0], size(shape[window:])
    if formulation == "auto":
        formulation = plans.cheaper(matrix.shape[1], len(weight), positions)
    if formulation == "columns":
        x = np.zeros(shape, np.float32)
        return Core(lambda: np.copyto(x, view()), plans.in_columns(x.reshape(groups, -1, positions), matrix))
    order = (0, *range(window, len(shape)), *range(1, window))
    x = np.zeros([shape[axis] for axis in order], np.float32)
    part = plans.in_arrays(x.reshape(groups, positions, -1), matrix)
    return Core(lambda: np.copyto(x, view().transpose(order)), part, groups)


def _windows(layer: Layer, source: np.ndarray) -> Callable[[], np.ndarray]:
    """A function that gives the windows of the source as it is then: (groups, channels, window…, batch, positions…)."""
    kernel, stride, groups = (layer.options[name] for name in ("kernel", "stride", "groups"))
    pads, dimensions = [(0, 0), (0, 0), *layer.options["padding"]], len(kernel)

    def view() -> np.ndarray:
        padded = np.pad(source, pads) if any(map(any, pads)) else source
        seen = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=tuple(range(2, 2 + dimensions)))
        seen = seen[(slice(None), slice(None), *(slice(None, None, step) for step in stride))]
        seen = np.moveaxis(seen, range(2 + dimensions, 2 + 2 * dimensions), range(1, 1 + dimensions))
        return seen.reshape(groups, len(source) // groups, *seen.shape[1:])

    return view


def _pooling(layer: Layer, source: np.ndarray) -> Core:
    """Pooling: the elements of each bin, one bin after the other."""
    bins = _bins(layer, source.shape[2:])
    sizes, indices = np.array([len(members) for members in bins]), np.concatenate(bins)
    flat = source.reshape(*source.shape[:2], -1)
    x = np.zeros((*source.shape[:2], len(indices)), np.float32)
    pooled = plans.in_bins(x, sizes, len(source), POOLS.get(layer.kind, "array_average"))
    return Core(lambda: np.take(flat, indices, axis=2, out=x, mode="clip"), pooled)


def _bins(layer: Layer, extents: Shape) -> List[np.ndarray]:
    """For every output position, the flat indices of the input positions that it pools."""
    if layer.kind == "global_avg_pool":
        ranges = [[(0, extent)] for extent in extents]
    elif layer.kind == "adaptive_avg_pool":
        ranges = [adaptive_bins(extent, outputs) for extent, outputs in zip(extents, layer.options["outputs"])]
    else:
        rows = zip(extents, layer.shape[1:], *(layer.options[name] for name in ("kernel", "stride", "padding")))
        ranges = [
            [(max(0, i * s - before), min(extent, i * s - before + k)) for i in range(outputs)]
            for extent, outputs, k, s, (before, _) in rows
        ]
    grid = np.arange(size(extents)).reshape(extents)
    cells = [()]
    for axis in ranges:
        cells = [(*cell, slice(*pair)) for cell in cells for pair in axis]
    return [grid[cell].reshape(-1) for cell in cells]


def _flatten(layer: Layer, inputs: Sequence[np.ndarray], result: np.ndarray) -> None:
    """The same elements in row-major order of the sample, whatever the shape after it."""
    samples = np.moveaxis(inputs[0], 1, 0).reshape(result.shape[1], *layer.shape)
    np.copyto(result, np.moveaxis(samples, 0, 1))


def _concat(layer: Layer, inputs: Sequence[np.ndarray], result: np.ndarray) -> None:
    np.concatenate(inputs, axis=0, out=result)


def _upsample(layer: Layer, inputs: Sequence[np.ndarray], result: np.ndarray) -> None:
    values = inputs[0]
    for axis, factor in enumerate(layer.options["factor"], start=2):
        values = np.repeat(values, factor, axis)
    np.copyto(result, values)


MOVES = {"flatten": _flatten, "reshape": _flatten, "concat": _concat, "upsample": _upsample}
