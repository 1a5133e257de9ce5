"""An ONNX file as a workload: parsed, shapes inferred, never executed.

Trainable parameters are the floating-point initialisers of at least one dimension, except running means and variances.
Operators outside the table are kept under their own name, so that they are reported as unknown.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steplab.core.errors import InputError
from steplab.core.files import open_regular
from steplab.core.parsing import parsing
from steplab.costs.operation import Operation, Weight, Workload
from steplab_worker.graph import INPUT, Shape

SECONDS = 300


@dataclass(frozen=True)
class Tensors:
    """What is known of the tensors of a model: shapes, the weights behind them, those that hold integers."""

    shapes: Mapping[str, Shape]
    learned: Mapping[str, str]  # a copy by another name is the same weight
    integers: frozenset[str]


@dataclass(frozen=True)
class Meaning:
    """What a node is: its kind, options, the learned inputs by their part, and inputs that are state."""

    kind: str
    options: Mapping[str, Any]
    weights: tuple[Weight, ...] = ()
    buffers: tuple[Shape, ...] = ()


def read_onnx(path: str, batch: int = 1, input_shape: Sequence[int] | None = None) -> Workload:
    """The network in an ONNX file at a batch size."""
    return from_model(_inferred(path, batch, input_shape), path, batch)


def from_model(content: bytes, path: str, batch: int) -> Workload:
    """The network in a model whose shapes have been inferred."""
    with parsing("has a layer that does not fit", f"onnx:{path}"):
        return _workload(content, path, batch)


def _workload(content: bytes, path: str, batch: int) -> Workload:
    import onnx

    model = onnx.load_model_from_string(content)
    weights = frozenset(entry.value for entry in model.metadata_props if entry.key == "steplab.weight")
    tensors = _tensors(model.graph, weights)
    shape = next((tensors.shapes[value.name][1:] for value in model.graph.input if value.name not in weights), ())
    return Workload(f"onnx:{path}", batch, shape, tuple(_operations(model.graph, tensors)))


def _inferred(path: str, batch: int, input_shape: Sequence[int] | None) -> bytes:
    where = f"onnx:{path}"
    with parsing("is no ONNX model", where):
        open_regular(Path(path)).close()
    job = json.dumps({"path": path, "batch": batch, "shape": None if input_shape is None else list(input_shape)})
    command = [sys.executable, "-P", "-m", "steplab.costs.onnx_shapes"]  # -P: nothing is imported from where we are
    try:
        done = subprocess.run(command, input=job.encode(), capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"was not read within {SECONDS} s", where=where) from error
    if done.returncode == 2:
        raise InputError(done.stderr.decode(errors="replace"), where=where)
    if done.returncode:
        raise InputError("is not a sound ONNX model: reading it failed", where=where)
    return done.stdout


def _tensors(graph: Any, weights: frozenset[str]) -> Tensors:
    from onnx import TensorProto

    floats = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
    shapes, types = {}, {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        types[value.name] = tensor.elem_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            shapes[value.name] = tuple(int(dim.dim_value) for dim in tensor.shape.dim)
    for tensor in graph.initializer:
        types[tensor.name], shapes[tensor.name] = tensor.data_type, tuple(tensor.dims)
    learned = {name: name for name in weights if types.get(name) in floats and shapes.get(name)}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in learned:
            learned[node.output[0]] = learned[node.input[0]]
            shapes[node.output[0]] = shapes[node.input[0]]
    integers = frozenset(name for name, kind in types.items() if kind not in floats and kind)
    return Tensors(shapes, learned, integers)


def _operations(graph: Any, tensors: Tensors) -> list[Operation]:
    operations: list[Operation] = []
    producers, names = {value.name: INPUT for value in graph.input}, set()
    for number, node in enumerate(graph.node):
        name = node.name or f"{node.op_type}_{number}"
        if _is_bookkeeping(node, tensors):
            continue
        if name in names:
            name = f"{name}_{number}"
        names.add(name)
        operations.append(_operation(node, name, tensors, producers))
        producers.update({output: name for output in node.output if output})
    return operations


def _is_bookkeeping(node: Any, tensors: Tensors) -> bool:
    """Constants, copies of weights, and arithmetic on shapes and indices: no floating-point work."""
    output = next(iter(node.output), "")
    integers = node.op_type in INTEGER_ARITHMETIC and output in tensors.integers
    return integers or node.op_type == "Constant" or output in tensors.learned


def _operation(node: Any, name: str, tensors: Tensors, producers: Mapping[str, str]) -> Operation:
    meaning = _meaning(node, tensors)
    skipped = {*tensors.learned, *tensors.integers}
    data = [tensor for tensor in node.input if tensor in producers and tensor not in skipped]
    output = next((tensor for tensor in node.output if tensor), "")
    known = output in tensors.shapes and all(tensor in tensors.shapes for tensor in data)
    if known and min(tensors.shapes[output], default=1) < 1:
        raise ValueError(f"the window of {name} does not fit its input")
    return Operation(
        name,
        meaning.kind if known else f"{node.op_type} of open shape",
        tuple(producers[tensor] for tensor in data),
        tuple(tensors.shapes.get(tensor, ()) for tensor in data),
        tensors.shapes.get(output, ()),
        meaning.options,
        meaning.weights,
        meaning.buffers,
    )


def _meaning(node: Any, tensors: Tensors) -> Meaning:
    read = READERS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    return read(node, tensors) if read else Meaning(node.op_type, {}, _learned(node, tensors))


def _learned(node: Any, tensors: Tensors, *roles: str) -> tuple[Weight, ...]:
    """The learned inputs of a node; `roles` name the inputs in order, others are called by their place."""
    parts = [*roles, *(f"input{i}" for i in range(len(roles), len(node.input)))]
    pairs = zip(parts, node.input, strict=False)
    learned = [(part, tensor) for part, tensor in pairs if tensor in tensors.learned]
    return tuple(Weight(part, tensors.learned[tensor], tensors.shapes[tensor]) for part, tensor in learned)


def _attribute(node: Any, name: str, default: Any) -> Any:
    from onnx import helper

    attribute = next((attribute for attribute in node.attribute if attribute.name == name), None)
    return default if attribute is None else helper.get_attribute_value(attribute)


Reader = Callable[[Any, Tensors], Meaning]


def _plain(kind: str, **options: Any) -> Reader:
    return lambda node, tensors: Meaning(kind, options, _learned(node, tensors))


def _conv(node: Any, tensors: Tensors) -> Meaning:
    given, kernel = (tensors.shapes.get(tensor, ()) for tensor in node.input[:2])
    groups = _attribute(node, "group", 1)
    # Shape inference lets this pass.
    if len(given) > 1 and len(kernel) > 1 and given[1] != kernel[1] * groups:
        raise ValueError(f"{node.name or node.op_type} takes {kernel[1] * groups} channels and gets {given[1]}")
    return Meaning("conv", {}, _learned(node, tensors, "input", "weight", "bias"))


def _conv_transpose(node: Any, tensors: Tensors) -> Meaning:
    return Meaning("conv_transpose", {}, _learned(node, tensors, "input", "weight", "bias"))


def _gemm(node: Any, tensors: Tensors) -> Meaning:
    weights = _learned(node, tensors, "input", "weight", "bias")
    if not any(weight.role == "weight" for weight in weights):
        return Meaning("matmul", {})
    if not _attribute(node, "transB", 0):
        weights = tuple(_turned(weight) if weight.role == "weight" else weight for weight in weights)
    return Meaning("dense", {}, weights)


def _turned(weight: Weight) -> Weight:
    """A (features, units) matrix as (units, features)."""
    return Weight(weight.role, weight.name, (*weight.shape[:-2], *weight.shape[-1:], *weight.shape[-2:-1]))


def _matmul(node: Any, tensors: Tensors) -> Meaning:
    left, right = node.input[:2]
    if right in tensors.learned:
        shape = tensors.shapes[right]
        weight = Weight("weight", tensors.learned[right], shape)
        return Meaning("dense", {}, (_turned(weight) if len(shape) > 1 else weight,))
    if left in tensors.learned:
        return Meaning("dense", {}, (Weight("weight", tensors.learned[left], tensors.shapes[left]),))
    return Meaning("matmul", {})


def _pool(kind: str) -> Reader:
    return lambda node, tensors: Meaning(kind, {"kernel": tuple(_attribute(node, "kernel_shape", ()))})


def _batch_norm(node: Any, tensors: Tensors) -> Meaning:
    learned = _learned(node, tensors, "input", "weight", "bias")
    weights = tuple(weight for weight in learned if weight.role in ("weight", "bias"))
    return Meaning("batch_norm", {}, weights, tuple(tensors.shapes[tensor] for tensor in node.input[3:5]))


def _resize(node: Any, tensors: Tensors) -> Meaning:
    mode = _attribute(node, "mode", b"nearest")
    return Meaning("upsample" if mode == b"nearest" else f"{node.op_type} {mode.decode(errors='replace')}", {})


def _table() -> dict[str, Reader]:
    groups: dict[str, str] = {
        "add": "Add Sub Sum",
        "multiply": "Mul Div",
        "softmax": "Softmax LogSoftmax",
        "elementwise": "Abs Ceil Clip Cos Erf Exp Floor Log Max Min Neg Pow Reciprocal Round Sign Sin Sqrt Where",
        "global_avg_pool": "GlobalAveragePool GlobalMaxPool ReduceMax ReduceMean ReduceMin ReduceSum",
        "layer_norm": "LayerNormalization GroupNormalization InstanceNormalization",
        "concat": "Concat",
        "move": "Cast DepthToSpace Expand Gather GatherElements GatherND Pad Slice SpaceToDepth Split Tile Transpose",
        "reshape": "ConstantOfShape Flatten Identity Reshape Squeeze Unsqueeze",
        "dropout": "Dropout",
    }
    activations = {"Relu": "relu", "LeakyRelu": "leaky_relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Elu": "elu"}
    activations |= {"Gelu": "gelu", "HardSigmoid": "hard_sigmoid", "HardSwish": "hard_swish", "Swish": "silu"}
    meanings = {op: _plain(kind) for kind, ops in groups.items() for op in ops.split()}
    meanings |= {op: _plain("activation", function=name) for op, name in activations.items()}
    meanings |= {"Conv": _conv, "ConvTranspose": _conv_transpose, "Gemm": _gemm, "MatMul": _matmul}
    meanings |= {"MaxPool": _pool("max_pool"), "AveragePool": _pool("avg_pool")}
    return meanings | {"BatchNormalization": _batch_norm, "Resize": _resize, "Upsample": _resize}


READERS = _table()
# Operators that, on integers, compute shapes and indices.
_INTEGER_OPERATORS = """Add And Cast Concat Constant ConstantOfShape Div Equal Expand Gather Greater Less Mod Mul Not
    Range ReduceProd Reshape Shape Size Slice Split Squeeze Sub Unsqueeze Where"""
INTEGER_ARITHMETIC = frozenset(_INTEGER_OPERATORS.split())
