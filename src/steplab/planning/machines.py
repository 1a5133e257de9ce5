"""Prices and machines as their owner states them: what an hour of a node costs, and what it draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steplab.core.errors import InputError, nearest
from steplab.models.base import PerformanceModel
from steplab.planning.job import parts_of

Array = np.ndarray
EXAMPLE = "[machine.NAME] with price_per_hour, and if you like workers_per_node, watts, currency"


class Machine(BaseModel):
    """A kind of node: what an hour of it costs, how many workers it holds, and what it draws."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    price_per_hour: float = Field(ge=0, allow_inf_nan=False)
    workers_per_node: int = Field(default=1, ge=1)
    watts: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    currency: str = ""


class _Prices(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    machine: dict[str, Machine] = Field(min_length=1)


@dataclass(frozen=True)
class Prices:
    """The machines of a price list; `chosen` names the one that runs everything, if there is one."""

    machines: Mapping[str, Machine]
    chosen: str = ""

    def of(self, model: PerformanceModel, frame: pd.DataFrame) -> list[Machine]:
        """The machine of each configuration: by a factor whose levels are machines, else the only or chosen one."""
        by_level = next((c for c, levels in model.levels_.items() if set(levels) <= set(self.machines)), "")
        if not self.chosen and by_level:
            return [self.machines[level] for level in frame[by_level]]
        if not self.chosen and len(self.machines) > 1:
            what = f"there are prices of {len(self.machines)} machines, and no factor tells which one is meant"
            raise InputError(what, hint=f"name one of {', '.join(self.machines)}")
        return [self.machines[self.chosen or next(iter(self.machines))]] * len(frame)

    def nodes(self, model: PerformanceModel, frame: pd.DataFrame, workers: Array) -> Array:
        """Nodes of each configuration: a factor of the model, else as many as its workers need."""
        parts = parts_of(model)
        if parts.nodes:
            return frame[parts.nodes].to_numpy(float)
        per_node = np.array([machine.workers_per_node for machine in self.of(model, frame)])
        return np.asarray(np.ceil(workers / per_node))

    def per_hour(self, model: PerformanceModel, frame: pd.DataFrame, workers: Array) -> Array:
        """Money for an hour of each configuration."""
        price = np.array([machine.price_per_hour for machine in self.of(model, frame)])
        return np.asarray(self.nodes(model, frame, workers) * price)

    def watts(self, model: PerformanceModel, frame: pd.DataFrame, workers: Array) -> Array:
        """Power of each configuration, by what its owner says that a node draws."""
        drawn = [machine.watts for machine in self.of(model, frame)]
        if any(watt is None for watt in drawn):
            raise InputError("the price list does not say what a node draws", hint="add watts = … to its [machine.…]")
        return np.asarray(self.nodes(model, frame, workers) * np.array(drawn, float))

    @property
    def currency(self) -> str:
        """The one currency of the list, or none."""
        named = {machine.currency for machine in self.machines.values()}
        return named.pop() if len(named) == 1 else ""


def parse_prices(document: Mapping[str, object], where: str, chosen: str = "") -> Prices:
    """A price list from its parsed TOML."""
    try:
        machines = _Prices.model_validate(document).machine
    except ValidationError as errors:
        wrong = errors.errors(include_url=False, include_input=False)[0]
        field, what = ".".join(map(str, wrong["loc"])), wrong["msg"]
        raise InputError(f"{field}: {what[:1].lower()}{what[1:]}", where=where, hint=f"write {EXAMPLE}") from None
    if chosen and chosen not in machines:
        raise InputError(f"there is no machine {chosen!r}", where=where, hint=nearest(chosen, machines))
    if len({machine.currency for machine in machines.values()}) > 1:
        raise InputError("the machines have several currencies", where=where, hint="state all prices in one")
    return Prices(machines, chosen)
