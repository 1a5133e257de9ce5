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
from steplab.core.trial import MOST_REPLICATES, Kind, Level
from steplab.kinds.base import TrialKind


class Range(Section):
    """A numeric factor given by its range, for random, latin and adaptive designs."""

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


_ADAPTIVE = ("aim", "trials", "minutes", "tolerance", "difference", "target", "start", "batch")
MOST_REPEATED, MOST_COMPARED = 5, 400  # measurements of one configuration, if the study does not say


class Design(Section):
    """[design]: which configurations, how often, in which order."""

    type: Literal["factorial", "random", "latin", "adaptive"] = "factorial"
    n: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    replicates: Annotated[int, Field(ge=1, le=MOST_REPLICATES)] = 3
    order: Literal["random", "given"] = "random"
    together: Annotated[tuple[str, ...], Field(strict=False)] = ()  # factors that are dear to change
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    # Of an adaptive design: what it is for, what it may cost, and when it has learned enough.
    aim: Literal["predict", "best", "scaling", "compare"] | None = None
    trials: Annotated[int, Field(le=1_000_000)] | None = None
    minutes: Annotated[float, Field(allow_inf_nan=False)] | None = None
    tolerance: Annotated[float, Field(gt=0, lt=1)] | None = None
    difference: Annotated[float, Field(gt=0, lt=10)] | None = None
    target: Literal["t_iter", "t_sample"] | None = None
    start: Annotated[int, Field(ge=3, le=10_000)] | None = None
    batch: Annotated[int, Field(ge=1, le=1000)] | None = None

    @model_validator(mode="after")
    def _counted(self) -> Design:
        if (self.type in ("random", "latin")) != (self.n is not None):
            raise ValueError("n (the number of configurations) goes with type 'random' or 'latin', and only with them")
        return self

    @model_validator(mode="after")
    def _kept_together(self) -> Design:
        if self.together and (self.order == "given" or self.type == "adaptive"):
            raise ValueError("together goes with order 'random', and not with type 'adaptive', which chooses its order")
        return self

    @model_validator(mode="after")
    def _budgeted(self) -> Design:
        own = [name for name in _ADAPTIVE if getattr(self, name) is not None]
        if self.type != "adaptive":
            if own:
                raise ValueError(f"{own[0]} goes with type 'adaptive', and only with it")
            return self
        if self.trials is None and self.minutes is None:
            raise ValueError("an adaptive design needs a budget: trials = 40, or minutes = 30")
        if (self.trials is not None and self.trials < 1) or (self.minutes is not None and self.minutes <= 0):
            raise ValueError("a budget of nothing measures nothing; give trials = 1 or more, or minutes above 0")
        if self.difference is not None and self.aim != "compare":
            raise ValueError("difference (what is to be seen) goes with aim = 'compare'")
        return self

    @property
    def most_replicates(self) -> int:
        """How often an adaptive design may measure a configuration."""
        if "replicates" in self.model_fields_set:
            return self.replicates
        return MOST_COMPARED if self.aim == "compare" else MOST_REPEATED


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
