"""The neutral graph as an ONNX model: each kind of layer as operators of the ONNX standard.

What ONNX Runtime makes of them (convolutions fused with their normalisation, layouts of its own) is its affair.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np
from onnx import TensorProto

from steplab_worker.adapters.onnxruntime.model import Model
from steplab_worker.graph import INPUT, Graph, Layer, Shape, size
from steplab_worker.layers import Pads, adaptive_bins

ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}
GELUS = {"gelu": "none", "gelu_tanh": "tanh"}
Build = Callable[[Model, Layer, List[Shape]], None]  # the layer's output has its name


def export(graph: Graph, weights: Mapping[Tuple[str, str], np.ndarray]) -> Tuple[bytes, Dict[str, np.ndarray]]:
    """The network as a serialised model, and the arrays that it declares."""
    model, shapes = Model(weights), graph.shapes()
    for layer in graph.layers:
        LAYERS[layer.kind](model, layer, [shapes[name] for name in layer.inputs])
    tokens = any(layer.kind == "embedding" and INPUT in layer.inputs for layer in graph.layers)
    kind = TensorProto.INT32 if tokens else TensorProto.FLOAT
    last = graph.layers[-1]
    return model.serialized(graph.name, (INPUT, kind, graph.input_shape), (last.name, last.shape)), model.arrays


def _pads(pads: Pads) -> List[int]:
    """All that is before, then all that is after."""
    return [before for before, _ in pads] + [after for _, after in pads]


def _window(layer: Layer) -> Dict[str, List[int]]:
    options = layer.options
    return {
        "kernel_shape": list(options["kernel"]),
        "strides": list(options["stride"]),
        "pads": _pads(options["padding"]),
    }


def _weighted(model: Model, layer: Layer, *names: str) -> List[str]:
    """The layer's input and those of the named weights that it has."""
    owned = [name for name in names if name in layer.weights or name in layer.buffers]
    return [layer.inputs[0], *(model.weight(layer.name, name) for name in owned)]


def _reshaped(model: Model, value: str, shape: Sequence[int], output: str) -> str:
    """The same elements under another shape; the batch stays."""
    return model.node("Reshape", [value, model.numbers(output + "/shape", [0, *shape])], output)


def _conv(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    inputs = _weighted(model, layer, "weight", "bias")
    model.node("Conv", inputs, layer.name, group=layer.options["groups"], **_window(layer))


def _dense(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    if len(shapes[0]) == 1:
        model.node("Gemm", _weighted(model, layer, "weight", "bias"), layer.name, transB=1)
    elif layer.options["bias"]:
        product = _product(model, layer, layer.name + "/product")
        model.node("Add", [product, model.weight(layer.name, "bias")], layer.name)
    else:
        _product(model, layer, layer.name)


def _product(model: Model, layer: Layer, output: str) -> str:
    """The input times the transposed weight, over the last dimension."""
    weight = model.weights[layer.weight_keys["weight"]]
    return model.node("MatMul", [layer.inputs[0], model.array(layer.name + ".transposed", weight.T)], output)


def _tied_dense(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    _product(model, layer, layer.name)


def _max_pool(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    model.node("MaxPool", layer.inputs, layer.name, **_window(layer))


def _avg_pool(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    model.node("AveragePool", layer.inputs, layer.name, count_include_pad=0, **_window(layer))


def _adaptive_avg_pool(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    """Windows of one size where they are; otherwise a product with a matrix of means along each dimension."""
    outputs, extents = layer.options["outputs"], shapes[0][1:]
    if any(extent % number for extent, number in zip(extents, outputs)):
        _means(model, layer, shapes[0])
        return
    window = [extent // number for extent, number in zip(extents, outputs)]
    model.node("AveragePool", layer.inputs, layer.name, kernel_shape=window, strides=window)


def _means(model: Model, layer: Layer, shape: Shape) -> None:
    value, extents = layer.inputs[0], list(shape)
    for axis, number in enumerate(layer.options["outputs"], start=1):
        name = "%s/axis%d" % (layer.name, axis)
        matrix = model.numbers(name + "/means", _matrix_of_means(extents[axis], number), np.float32)
        folded = size(extents[:axis]), extents[axis], size(extents[axis + 1 :])
        value = model.node("MatMul", [matrix, _reshaped(model, value, folded, name + "/folded")], name)
        extents[axis] = number
    _reshaped(model, value, extents, layer.name)


def _matrix_of_means(extent: int, outputs: int) -> np.ndarray:
    matrix = np.zeros((outputs, extent))
    for row, (start, stop) in enumerate(adaptive_bins(extent, outputs)):
        matrix[row, start:stop] = 1 / (stop - start)
    return matrix


def _global_avg_pool(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    model.node("Flatten", [model.node("GlobalAveragePool", layer.inputs, layer.name + "/mean")], layer.name)


def _batch_norm(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    inputs = _weighted(model, layer, "weight", "bias", "mean", "variance")
    model.node("BatchNormalization", inputs, layer.name, epsilon=layer.options["epsilon"])


def _layer_norm(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    inputs = _weighted(model, layer, "weight", "bias")
    model.node("LayerNormalization", inputs, layer.name, axis=-1, epsilon=layer.options["epsilon"])


def _activation(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    function, (value,) = layer.options["function"], layer.inputs
    if function in GELUS:
        model.node("Gelu", [value], layer.name, approximate=GELUS[function])
    elif function == "silu":
        model.node("Mul", [value, model.node("Sigmoid", [value], layer.name + "/sigmoid")], layer.name)
    else:
        model.node(ACTIVATIONS[function], [value], layer.name)


def _identity(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    model.node("Identity", layer.inputs, layer.name)


def _add(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    total = layer.inputs[0]
    for number, value in enumerate(layer.inputs[1:], start=2):
        last = number == len(layer.inputs)
        total = model.node("Add", [total, value], layer.name if last else "%s/sum%d" % (layer.name, number))


def _multiply(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    first, second = layer.inputs
    if len(shapes[1]) < len(shapes[0]):
        second = _reshaped(model, second, (*shapes[1], *(1,) * (len(shapes[0]) - 1)), layer.name + "/channels")
    model.node("Mul", [first, second], layer.name)


def _scale(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    model.node("Mul", _weighted(model, layer, "weight"), layer.name)


def _concat(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    model.node("Concat", layer.inputs, layer.name, axis=1)


def _attention(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    heads = layer.options["heads"]
    positions = size(shapes[0][1:])
    values = []
    for part, value, shape in zip("qkv", layer.inputs, shapes):
        name = "%s/%s" % (layer.name, part)
        split = _reshaped(model, value, (heads, shape[0] // heads, positions), name + "/heads")
        values.append(model.node("Transpose", [split], name, perm=[0, 1, 3, 2]))
    mixed = model.node("Attention", values, layer.name + "/mixed", scale=layer.options["scale"])
    back = model.node("Transpose", [mixed], layer.name + "/back", perm=[0, 1, 3, 2])
    _reshaped(model, back, layer.shape, layer.name)


def _self_attention(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    heads, parts = layer.options["heads"], model.split(layer.inputs[0], 3, axis=2)
    options = {"q_num_heads": heads, "kv_num_heads": heads, "is_causal": int(layer.options["causal"])}
    model.node("Attention", parts, layer.name, **options)


def _flatten(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    model.node("Flatten", layer.inputs, layer.name)


def _reshape(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    _reshaped(model, layer.inputs[0], layer.shape, layer.name)


def _upsample(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    scales = model.numbers(layer.name + "/scales", [1, 1, *layer.options["factor"]], np.float32)
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    model.node("Resize", [layer.inputs[0], "", scales], layer.name, **nearest)


def _embedding(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    model.node("Gather", [model.weight(layer.name, "weight"), layer.inputs[0]], layer.name)


def _position_embedding(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    positions, rows = layer.shape[0], layer.options["rows"]
    values = model.weights[layer.name, "weight"][np.arange(positions) * rows // positions]
    model.node("Add", [layer.inputs[0], model.array(layer.name + ".rows", values)], layer.name)


def _class_token(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    """The row once for each sample of the batch, whose number is known when it runs."""
    batch = model.node("Shape", layer.inputs, layer.name + "/batch", start=0, end=1)
    extents = [batch, model.numbers(layer.name + "/row", [1, layer.shape[1]])]
    shape = model.node("Concat", extents, layer.name + "/shape", axis=0)
    rows = model.node("Expand", [model.weight(layer.name, "weight"), shape], layer.name + "/rows")
    model.node("Concat", [rows, layer.inputs[0]], layer.name, axis=1)


def _sequence(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    positions, channels = layer.shape
    flat = _reshaped(model, layer.inputs[0], (channels, positions), layer.name + "/flat")
    model.node("Transpose", [flat], layer.name, perm=[0, 2, 1])


def _part(model: Model, layer: Layer, shapes: List[Shape]) -> None:
    limits = {"starts": layer.options["start"], "ends": layer.options["stop"], "axes": 1}
    numbers = [model.numbers("%s/%s" % (layer.name, name), [value]) for name, value in limits.items()]
    model.node("Slice", [layer.inputs[0], *numbers], layer.name)


LAYERS: Dict[str, Build] = {
    "conv": _conv,
    "dense": _dense,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive_avg_pool,
    "global_avg_pool": _global_avg_pool,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "activation": _activation,
    "dropout": _identity,
    "drop_path": _identity,
    "add": _add,
    "multiply": _multiply,
    "scale": _scale,
    "concat": _concat,
    "attention": _attention,
    "flatten": _flatten,
    "reshape": _reshape,
    "upsample": _upsample,
    "embedding": _embedding,
    "position_embedding": _position_embedding,
    "class_token": _class_token,
    "sequence": _sequence,
    "part": _part,
    "self_attention": _self_attention,
    "tied_dense": _tied_dense,
}
