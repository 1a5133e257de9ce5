"""A study: one declared experiment, as a person writes it in TOML and as the laboratory uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from steplab.core.catalogue import MODULE
from steplab.core.trial import Kind, Level


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Range(_Section):
    """A numeric factor given by its range, for random and latin designs."""

    low: int | float
    high: int | float
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if not self.low < self.high:
            raise ValueError("low must be below high")
        if self.scale == "log" and self.low <= 0:
            raise ValueError("a log scale needs low above 0")
        return self

    @property
    def integer(self) -> bool:
        """Whether only whole numbers are drawn."""
        return isinstance(self.low, int) and isinstance(self.high, int)


Levels = tuple[Level, ...]
Factor = Levels | Range


class About(_Section):
    """[study]: its name and what kind of trials it has."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    kind: Kind = "step"
    description: str = ""


class Design(_Section):
    """[design]: which configurations, how often, in which order."""

    type: Literal["factorial", "random", "latin"] = "factorial"
    n: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    replicates: Annotated[int, Field(ge=1, le=10_000)] = 3
    order: Literal["random", "given"] = "random"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1

    @model_validator(mode="after")
    def _counted(self) -> Design:
        if (self.type == "factorial") != (self.n is None):
            raise ValueError("n (the number of configurations) goes with type 'random' or 'latin', and only with them")
        return self


class Measure(_Section):
    """[measure]: the measurement protocol. Times in seconds."""

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


class Train(_Section):
    """[train]: how long a trial of kind train trains, when its accuracy is looked at and its state saved."""

    epochs: Annotated[int, Field(ge=1, le=100_000)] = 10
    target_accuracy: Annotated[int | float, Field(gt=0, le=1)] | None = None
    validation_samples: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    every: Annotated[int, Field(ge=1, le=100_000)] = 1
    checkpoint_every: Annotated[int, Field(ge=1, le=100_000)] = 1


class Data(_Section):
    """[data]: how many training samples a generated data set has."""

    samples: Annotated[int, Field(ge=1, le=100_000_000)] | None = None


class Imported(_Section):
    """[imported]: the times were measured elsewhere; such a study is analysed and modelled, never run."""

    format: str
    source: str = ""


@dataclass(frozen=True)
class Study:
    """One declared experiment, checked."""

    about: About
    factors: Mapping[str, Factor]
    design: Design
    measure: Measure
    data: Data
    exclude: tuple[Mapping[str, Levels], ...]
    text: str  # the file as written, kept with the records
    path: Path
    train: Train = field(default_factory=Train)
    imported: Imported | None = None

    @property
    def own_networks(self) -> list[str]:
        """The networks that are the user's own code (`module:…`)."""
        levels = self.factors.get("network", ())
        return [str(level) for level in levels if str(level).startswith(MODULE)] if isinstance(levels, tuple) else []

    @property
    def protocol(self) -> dict[str, object]:
        """What must not change between runs into one folder: kind of trials and measurement protocol."""
        measure = self.measure.model_dump(exclude={"timeout_s", "retries"})
        train = self.train.model_dump(exclude={"checkpoint_every"}) if self.about.kind == "train" else None
        imported = self.imported.format if self.imported else None
        about = {"kind": self.about.kind, "train": train, "imported": imported}
        return {**about, "measure": measure, "data": self.data.model_dump()}
