"""Arithmetic on shapes in an ONNX model, worked out where everything it needs is known.

Exporters write "reshape to (batch, length·width)" as a dozen small integer operators. Once the batch is fixed they are
constants, and only then can the shapes behind them be inferred. Every operator here works on at most `SMALL` integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SMALL = 1024
ROUNDS = 8


def fold(model: Any) -> bool:
    """Replace integer operators whose inputs are known by constants; whether there were any."""
    from onnx import helper, numpy_helper

    known, shapes, folded = _constants(model.graph), _shapes(model.graph), False
    for place, node in enumerate(model.graph.node):
        value = None if node.op_type == "Constant" else _value(node, known, shapes)
        if value is None or value.size > SMALL or len(node.output) != 1:
            continue
        known[node.output[0]], folded = value, True
        tensor = numpy_helper.from_array(np.array(value, order="C"))
        constant = helper.make_node("Constant", [], list(node.output), node.name, value=tensor)
        model.graph.node[place].CopyFrom(constant)
    return folded


def _value(node: Any, known: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> Array | None:
    from onnx import helper

    options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    try:
        if node.op_type == "Shape":
            shape = shapes[node.input[0]]
            return np.array(shape[options.get("start", 0) : options.get("end", len(shape))], np.int64)
        work = FOLDS.get(node.op_type)
        if work is None or node.domain not in ("", "ai.onnx"):
            return None
        arrays = [known[tensor] if tensor else None for tensor in node.input]
        with np.errstate(all="ignore"):
            value = np.asarray(work(options, *arrays))
        return value if value.dtype.kind in "iub" else None
    except (AttributeError, KeyError, IndexError, ValueError, TypeError, OverflowError, MemoryError):
        return None  # not known, or not as it should be: shape inference will say so


def _constants(graph: Any) -> dict[str, Array]:
    """Small integer arrays by name."""
    from onnx import numpy_helper

    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and len(node.output) == 1 and node.attribute and node.attribute[0].HasField("t"):
            tensors[node.output[0]] = node.attribute[0].t
    constants = {}
    for name, tensor in tensors.items():
        if 0 <= int(np.prod(tensor.dims, dtype=object)) <= SMALL and tensor.data_type in _integer_types():
            try:
                constants[name] = numpy_helper.to_array(tensor)
            except (ValueError, TypeError):
                continue
    return constants


def _integer_types() -> frozenset[int]:
    from onnx import TensorProto

    return frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})


def _shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    """The shapes that are known completely."""
    shapes = {}
    for value in (*graph.input, *graph.value_info):
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            shapes[value.name] = tuple(int(dim.dim_value) for dim in tensor.shape.dim)
    return shapes


def _divide(a: Array, b: Array) -> Array:
    """Integer division towards zero, as ONNX defines it."""
    if not np.all(b):
        raise ValueError("division by zero")
    return np.asarray(np.trunc(a / b), a.dtype)


def _slice(data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    places = range(len(starts)) if axes is None else axes
    jumps = np.ones(len(starts), np.int64) if steps is None else steps
    cuts = [slice(None)] * data.ndim
    for axis, start, stop, step in zip(places, starts, ends, jumps, strict=True):
        # An end far below zero means "to the beginning" of a backward slice.
        cuts[axis] = slice(int(start), None if stop <= -(2**31) else int(stop), int(step))
    return data[tuple(cuts)]


def _axes(options: Mapping[str, Any], axes: Array | None) -> tuple[int, ...]:
    given = options.get("axes") if axes is None else axes
    if given is None:
        raise KeyError("axes")
    return tuple(int(axis) for axis in given)


Fold = Callable[..., Array]
FOLDS: dict[str, Fold] = {
    "Add": lambda o, a, b: a + b,
    "Sub": lambda o, a, b: a - b,
    "Mul": lambda o, a, b: a * b,
    "Div": lambda o, a, b: _divide(a, b),
    "Mod": lambda o, a, b: np.mod(a, b),
    "Equal": lambda o, a, b: a == b,
    "Where": lambda o, c, a, b: np.asarray(np.where(c, a, b)),
    "Cast": lambda o, a: a.astype({6: np.int32, 7: np.int64, 9: np.bool_}[o["to"]]),
    "Identity": lambda o, a: a,
    "Concat": lambda o, *parts: np.concatenate(parts, axis=o["axis"]),
    "Gather": lambda o, a, i: np.take(a, i, axis=o.get("axis", 0)),
    "Slice": lambda o, a, *rest: _slice(a, *rest),
    "Squeeze": lambda o, a, axes=None: np.squeeze(a, _axes(o, axes)),
    "Unsqueeze": lambda o, a, axes=None: np.expand_dims(a, _axes(o, axes)),
    "Reshape": lambda o, a, shape: a.reshape([a.shape[i] if n == 0 else int(n) for i, n in enumerate(shape)]),
    "Transpose": lambda o, a: a.transpose(o.get("perm")),
    "ReduceProd": lambda o, a, axes=None: np.prod(a, keepdims=bool(o.get("keepdims", 1))),
}
