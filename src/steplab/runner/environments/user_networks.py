"""A user's own PyTorch network, described by the worker: its code never runs in the laboratory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steplab.core.errors import InputError
from steplab.costs.memory import LayerMemory
from steplab.costs.operation import Operation, Weight, Workload
from steplab.runner.environments import worker
from steplab.runner.environments.registry import find

SECONDS = 600
FORM = re.compile(r"module:[\w.]+:[\w.]+")


@dataclass(frozen=True)
class OwnPlace:
    """Where code of one's own is, and what it needs to run: a folder (by default the current one), an environment."""

    folder: Path | None = None
    environment: str = ""  # empty: PyTorch's own
    dataset: str = ""  # one's own, whose samples the network is given; without it they are made up


def trace_module(
    spec: str,
    batch: int = 1,
    input_shape: Sequence[int] | None = None,
    place: OwnPlace | None = None,
    *,
    tokens: bool = False,
) -> Workload:
    """The operations of one forward pass of `module:package.module:function`, seen inside a PyTorch environment.

    Its code runs there. It is looked for among the installed packages, then in its folder.
    """
    place = place or OwnPlace()
    job = {**_job(spec, input_shape, place), "batch": batch, "tokens": tokens}
    (answer,) = _ask(torch_python(place.environment), "adapters.torch.trace", job)
    operations = tuple(_operation(operation) for operation in answer["operations"])
    declared = tuple(Weight("declared", name, tuple(extents)) for name, extents in answer["parameters"])
    return Workload(spec, batch, tuple(answer["input_shape"]), operations, declared)


def torch_python(environment: str = "") -> Path:
    """The interpreter of a PyTorch environment, by default of PyTorch's own."""
    return find("torch", environment).python


@dataclass(frozen=True)
class SeenMemory:
    """What a step of a network of one's own held at a batch size, in bytes."""

    batch: int
    learned_bytes: int  # of the parameters that have gradients; others are frozen
    working_bytes: int  # the most at once beside the parameters: the batch, activations, gradients, scratch
    layers: tuple[LayerMemory, ...]


def see_memory(
    spec: str, batches: Sequence[int], input_shape: Sequence[int] | None = None, place: OwnPlace | None = None
) -> list[SeenMemory]:
    """What a step holds at each of the batch sizes: forward and backward run once for each, in that environment."""
    place = place or OwnPlace()
    job = {**_job(spec, input_shape, place), "batches": list(batches), "tokens": False}
    return [_seen(answer) for answer in _ask(torch_python(place.environment), "adapters.torch.kept", job)]


def _seen(answer: dict[str, Any]) -> SeenMemory:
    rows = answer["layers"]
    layers = tuple(LayerMemory(str(name), str(kind), int(held), int(kept)) for name, kind, held, kept in rows)
    return SeenMemory(int(answer["batch"]), int(answer["learned_bytes"]), int(answer["working_bytes"]), layers)


def _job(spec: str, input_shape: Sequence[int] | None, place: OwnPlace) -> dict[str, Any]:
    for name in filter(None, (spec, place.dataset)):
        if not FORM.fullmatch(name):
            raise InputError("is not a function of the user", where=name, hint="write module:PACKAGE.MODULE:FUNCTION")
    shape = None if input_shape is None else list(input_shape)
    return {"network": spec, "paths": [str(place.folder or Path.cwd())], "shape": shape, "dataset": place.dataset}


def _ask(python: Path, module: str, job: dict[str, Any]) -> list[dict[str, Any]]:
    """What a helper says of a network; one sentence if the network does not work."""
    spec = str(job["network"])
    try:
        answers = list(worker.answers(python, module, job, SECONDS))
    except worker.HelperLate:
        raise InputError(f"did not finish within {SECONDS} s", where=spec) from None
    except worker.HelperFailed as failed:
        raise InputError(f"cannot be traced: {failed}", where=spec) from None
    for answer in answers:
        if "error" in answer:
            raise InputError(" ".join(str(answer["error"]).removeprefix(f"{spec}: ").split()), where=spec)
    return answers


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
