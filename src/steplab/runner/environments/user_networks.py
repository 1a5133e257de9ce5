"""A user's own PyTorch network, described by the worker: its code never runs in the laboratory."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steplab.core import atomic
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
    said = _ask(torch_python(), job, spec)
    if "error" in said:
        raise InputError(" ".join(str(said["error"]).removeprefix(f"{spec}: ").split()), where=spec)
    operations = tuple(_operation(one) for one in said["operations"])
    declared = tuple(Weight("declared", name, tuple(extents)) for name, extents in said["parameters"])
    return Workload(spec, batch, tuple(said["input_shape"]), operations, declared)


def torch_python() -> Path:
    """The interpreter of the PyTorch environment."""
    return find("torch").python


def _ask(python: Path, job: dict[str, Any], spec: str) -> dict[str, Any]:
    """Run the worker on a job; its answer comes in a file of its own, whatever the user's code prints."""
    with atomic.scratch("costs") as folder:
        answer = folder / "answer.json"
        command = worker.command(python, "adapters.torch.trace")
        text = json.dumps({**job, "answer": str(answer)})
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, errors="replace",
                env=worker.variables(), timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise InputError(f"did not finish a forward pass within {SECONDS} s", where=spec) from error
        if not answer.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise InputError(f"the worker ended with code {done.returncode}: {last}", where=spec)
        said: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return said


def _operation(said: dict[str, Any]) -> Operation:
    return Operation(
        said["name"],
        said["kind"],
        tuple(said["inputs"]),
        tuple(tuple(shape) for shape in said["input_shapes"]),
        tuple(said["output_shape"]),
        said["options"],
        tuple(Weight(one["role"], one["name"], tuple(one["shape"])) for one in said["weights"]),
    )
