"""Reads an ONNX file and infers its shapes, in a process of its own: `python -m steplab.costs.onnx_shapes`.

Parsing and shape inference are native code that a broken or hostile file can crash; then this process ends, not the
laboratory. Nothing in the file is executed, external data is never opened. The job is a JSON document on stdin, the
answer a model without its large weights on stdout; exit code 2 is a sentence about the file on stderr.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steplab.core.errors import InputError
from steplab.core.files import read_regular
from steplab.core.parsing import parsing
from steplab.costs.onnx_folding import ROUNDS, SMALL, fold

MAX_BYTES = 2**31 - 1  # protobuf can hold no more
MAX_NODES = 100_000


class ModelFileError(InputError):
    """What is wrong with the file, for a person."""


def load(path: str) -> Any:
    """The model in a file, without external data."""
    import onnx

    with parsing("is not an ONNX model", "", ModelFileError):
        model = onnx.load_model_from_string(read_regular(Path(path), MAX_BYTES))
    if not model.graph.node:
        raise ModelFileError("is not an ONNX model, or has no layers")
    if len(model.graph.node) > MAX_NODES:
        raise ModelFileError(f"has more than {MAX_NODES} layers")
    return model


def strip(model: Any) -> None:
    """Replace large and external weights by inputs of their shape; small arrays may say what shape to make."""
    from onnx import TensorProto, helper

    graph, kept = model.graph, []
    declared = {value.name for value in graph.input}
    for tensor in graph.initializer:
        elements = 1
        for extent in tensor.dims:
            elements *= extent
        if elements <= SMALL and tensor.data_location != TensorProto.EXTERNAL:
            kept.append(tensor)
        elif tensor.name not in declared:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    del graph.initializer[:]
    graph.initializer.extend(kept)


def fix_inputs(model: Any, weights: frozenset[str], batch: int, shape: Sequence[int] | None) -> None:
    """Write batch and sample shape into the inputs, and forget the shapes that were computed for others."""
    graph = model.graph
    data = [value for value in graph.input if value.name not in weights]
    if shape is not None and len(data) != 1:
        raise ModelFileError(f"has {len(data)} inputs; a shape can be given for one only")
    for value in data:
        _fix(value, batch, shape)
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")


def _fix(value: Any, batch: int, shape: Sequence[int] | None) -> None:
    dims = value.type.tensor_type.shape.dim
    if shape is not None and len(dims) not in (0, len(shape) + 1):
        raise ModelFileError(f"takes samples of {len(dims) - 1} dimensions, not {len(shape)}")
    if shape is not None and not dims:
        for _ in range(len(shape) + 1):
            dims.add()
    for i, wanted in enumerate((batch, *shape) if shape is not None else (batch,) * min(1, len(dims))):
        if dims[i].dim_value not in (0, wanted):
            what = f"its batch at {dims[0].dim_value}" if i == 0 else "another shape of its samples"
            raise ModelFileError(f"fixes {what}; give --batch and --input to fit")
        dims[i].dim_value = wanted
    if not dims or any(dim.dim_value < 1 for dim in dims):
        raise ModelFileError(f"leaves the shape of its input {value.name!r} open; give it with --input")


def answer(job: dict[str, Any]) -> bytes:
    """The model with all shapes and without its weights."""
    model = load(job["path"])
    weights = frozenset(tensor.name for tensor in model.graph.initializer)
    strip(model)
    fix_inputs(model, weights, job["batch"], job["shape"])
    inferred = infer(model)
    for _ in range(ROUNDS):
        if not fold(inferred):
            break
        inferred = infer(inferred)
    for name in weights:
        entry = inferred.metadata_props.add()
        entry.key, entry.value = "steplab.weight", name
    return bytes(inferred.SerializeToString())


def infer(model: Any) -> Any:
    """The model with the shapes that can be inferred."""
    from onnx import shape_inference

    with parsing("has layers that do not fit", "", ModelFileError):
        return shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def limit(size: int) -> None:
    """Bound the memory of this process: shape inference of a hostile file would take all there is."""
    resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30 + 4 * size,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> int:
    """Read the job, answer it."""
    job = json.load(sys.stdin)
    try:
        with parsing("is not a sound ONNX model", ""):
            limit(Path(job["path"]).stat().st_size)
            shapes = answer(job)
    except InputError as problem:
        sys.stderr.write(problem.what)
        return 2
    sys.stdout.buffer.write(shapes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
