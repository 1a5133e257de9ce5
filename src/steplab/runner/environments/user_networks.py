"""A user's own PyTorch network, described by the worker: its code never runs in the laboratory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steplab.core.errors import InputError
from steplab.costs.operation import Operation, Weight, Workload
from steplab.runner.environments import worker
from steplab.runner.environments.registry import find

SECONDS = 600


def trace_module(
    spec: str, batch: int = 1, input_shape: Sequence[int] | None = None, *, folder: Path | None = None
) -> Workload:
    """The operations of one forward pass of `module:package.module:function`, seen inside the PyTorch environment.

    Its code runs there. It is looked for among the installed packages, then in the folder (by default the current one).
    """
    if not re.fullmatch(r"module:[\w.]+:[\w.]+", spec):
        raise InputError("is not a network of the user", where=spec, hint="write module:PACKAGE.MODULE:FUNCTION")
    shape = None if input_shape is None else list(input_shape)
    job = {"network": spec, "paths": [str(folder or Path.cwd())], "batch": batch, "shape": shape}
    answer = _ask(torch_python(), job, spec)
    if "error" in answer:
        raise InputError(" ".join(str(answer["error"]).removeprefix(f"{spec}: ").split()), where=spec)
    operations = tuple(_operation(operation) for operation in answer["operations"])
    declared = tuple(Weight("declared", name, tuple(extents)) for name, extents in answer["parameters"])
    return Workload(spec, batch, tuple(answer["input_shape"]), operations, declared)


def torch_python() -> Path:
    """The interpreter of the PyTorch environment."""
    return find("torch").python


def _ask(python: Path, job: dict[str, Any], spec: str) -> dict[str, Any]:
    try:
        return worker.answer(python, "adapters.torch.trace", job, SECONDS)
    except worker.HelperLate:
        raise InputError(f"did not finish a forward pass within {SECONDS} s", where=spec) from None
    except worker.HelperFailed as failed:
        raise InputError(f"cannot be traced: {failed}", where=spec) from None


def _operation(operation: dict[str, Any]) -> Operation:
    return Operation(
        operation["name"],
        operation["kind"],
        tuple(operation["inputs"]),
        tuple(tuple(shape) for shape in operation["input_shapes"]),
        tuple(operation["output_shape"]),
        operation["options"],
        tuple(Weight(weight["role"], weight["name"], tuple(weight["shape"])) for weight in operation["weights"]),
    )
