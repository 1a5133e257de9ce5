"""A study: one declared experiment, as a person writes it in TOML and as the laboratory uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from steplab import kinds
from steplab.core import catalogue, placement
from steplab.core.measurement import Data, Measure, Section
from steplab.core.trial import Kind, Level
from steplab.kinds.base import TrialKind


class Range(Section):
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


class About(Section):
    """[study]: its name and what kind of trials it has."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    kind: Kind = "step"
    description: str = ""


class Design(Section):
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


class Imported(Section):
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
    section: Section  # of its kind of trials
    imported: Imported | None = None
    executors: Mapping[str, Section] = field(default_factory=dict)  # [executor.NAME], where trials may run

    @cached_property
    def kind(self) -> TrialKind:
        """What its trials are."""
        return kinds.named(self.about.kind)(self.measure, self.data, self.section)

    @property
    def deciding(self) -> list[str]:
        """The factors that decide whether a combination is impossible; all others may take any level."""
        networks = self.factors.get("network", (catalogue.general()["network"].default,))
        assert isinstance(networks, tuple)
        known = {"network", "dataset", "augment", "placement", "rate"}
        if not {"global_batch_size", "nodes", "ranks_per_node"}.isdisjoint(self.factors):
            known |= {"global_batch_size", *placement.FACTORS}
        for network in networks:
            options = catalogue.network_options(str(network))
            known |= {name for name, option in options.items() if option.shapes}
        return [name for name in self.factors if name in known]

    @property
    def protocol(self) -> dict[str, object]:
        """What must not change between runs into one folder: kind of trials and measurement protocol."""
        return {
            "kind": self.about.kind,
            "section": self.kind.fixed,
            "imported": self.imported.format if self.imported else None,
            "measure": self.measure.model_dump(exclude={"timeout_s", "retries"}),
            "data": self.data.model_dump(),
        }
