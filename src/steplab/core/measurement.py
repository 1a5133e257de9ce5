"""How trials are measured, as a study declares it: what holds for every kind of trial. Times in seconds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A section of a study file: checked as written, and never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Measure(Section):
    """[measure]: the measurement protocol."""

    warmup: Literal["auto"] | Annotated[int, Field(ge=0, le=100_000)] = "auto"
    iterations: Annotated[int, Field(ge=1, le=1_000_000)] = 50
    precision: Annotated[float, Field(gt=0, lt=1)] | None = None
    max_iterations: Annotated[int, Field(ge=1, le=10_000_000)] = 1000
    phases: bool = True
    timeout_s: Annotated[int | float, Field(gt=0, le=1e7)] = 300
    retries: Annotated[int, Field(ge=0, le=100)] = 1
    isolation: Literal["warm", "process"] = "warm"
    memory_limit_mb: Annotated[int, Field(ge=1)] | None = None
    watts_per_cpu: Annotated[int | float, Field(gt=0, le=1e4)] | None = None


class Data(Section):
    """[data]: how many training samples a generated data set has."""

    samples: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
