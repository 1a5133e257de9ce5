"""Machine files: the published ceilings of a machine that is not here, in TOML."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from steplab.core.errors import InputError, nearest
from steplab.core.parsing import parsing, read_text
from steplab.costs.roofs import FLOAT32, Ceiling, Ceilings, Level

MAX_BYTES = 1 << 20
Rate = Annotated[float, Field(gt=0, lt=1e30, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class _Memory(_Part):
    name: Annotated[str, Field(min_length=1, max_length=20)]
    bytes_per_s: Rate
    capacity_bytes: Rate | None = None


class _MachineFile(_Part):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    source: Annotated[str, Field(min_length=1)]
    flops_per_s: Annotated[dict[str, Rate], Field(min_length=1)]
    memory: Annotated[list[_Memory], Field(min_length=1)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        *caches, main = self.memory
        if main.capacity_bytes is not None:
            raise ValueError("the last [[memory]] is the main memory and has no capacity_bytes")
        if any(cache.capacity_bytes is None for cache in caches):
            raise ValueError("every [[memory]] but the last is a cache and needs capacity_bytes")
        sizes = [cache.capacity_bytes or 0.0 for cache in caches]
        if sizes != sorted(sizes):
            raise ValueError("the [[memory]] tables go from the smallest cache to the main memory")
        if len({level.name for level in self.memory}) < len(self.memory):
            raise ValueError("two [[memory]] tables have the same name")
        return self


def machine_names() -> list[str]:
    """The machine files that come with steplab.

    >>> machine_names()
    ['a100', 'rtx2080', 'rtx4090']
    """
    folder = resources.files("steplab.costs").joinpath("machines")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def read_machine(machine: str, precision: str = "fp32") -> Ceilings:
    """The ceilings in a machine file: one that comes with steplab by its name, or the user's own by its path.

    >>> read_machine("a100").rows[0].ridge > 12
    True
    """
    where, machine_file = _parsed(machine)
    if precision not in machine_file.flops_per_s:
        hint = nearest(precision, machine_file.flops_per_s)
        raise InputError(f"there is no peak for the precision {precision!r}", where=where, hint=hint)
    levels = tuple(_level(memory) for memory in machine_file.memory)
    named = FLOAT32 if precision == "fp32" else precision
    row = Ceiling(0, machine_file.flops_per_s[precision], levels, precision=named)
    return Ceilings(f"{machine_file.name}, {precision}", (row,), "file", machine_file.source)


def _level(memory: _Memory) -> Level:
    return Level(memory.name, memory.bytes_per_s, memory.capacity_bytes or float("inf"), kernel="published")


def _parsed(machine: str) -> tuple[str, _MachineFile]:
    where, text = _text(machine)
    with parsing("is not TOML", where):
        document = tomllib.loads(text)
    try:
        return where, _MachineFile.model_validate(document)
    except ValidationError as errors:
        raise InputError(_first(errors), where=where, hint=_FIELDS) from None


def _first(errors: ValidationError) -> str:
    """What is wrong first, with the field it is in."""
    wrong = errors.errors(include_url=False, include_input=False)[0]
    field, what = ".".join(map(str, wrong["loc"])), wrong["msg"].removeprefix("Value error, ")
    named = {"extra_forbidden": "is not a field of a machine file", "missing": "is missing"}
    return f"{field} {named[wrong['type']]}" if wrong["type"] in named else f"{field}: {what}" if field else what


_FIELDS = "a machine file has name, source, [flops_per_s] by precision and [[memory]] (see docs/roofline.md)"


def _text(machine: str) -> tuple[str, str]:
    if machine in machine_names():
        file = resources.files("steplab.costs").joinpath("machines", f"{machine}.toml")
        return f"machine {machine}", file.read_text("utf-8")
    path = Path(machine)
    if not machine.endswith(".toml") and "/" not in machine:
        hint = nearest(machine, machine_names()) + ", or a path to FILE.toml"
        raise InputError(f"there is no machine {machine!r}", where="--machine", hint=hint)
    return machine, read_text(path, MAX_BYTES)
