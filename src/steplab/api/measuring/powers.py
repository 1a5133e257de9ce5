"""Which differences a planned study will see: from the noise of its own trials, of earlier ones here, of a pilot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from steplab.api.measuring.noise_memory import NOISE, Scatter
from steplab.api.measuring.shape_memory import Shape
from steplab.core import catalogue
from steplab.core.resolution import resolve
from steplab.core.trial import Config
from steplab.design.order import Blocks
from steplab.design.plan import Plan
from steplab.planning.power import Power, design_power
from steplab.store import records
from steplab.store.paths import StudyFolder
from steplab.store.tables import load
from steplab.study.sections import Study

DIFFERENCE = 0.05  # that aim `compare` is to see, if the study does not say
FEWEST = 3  # degrees of freedom below which a noise is no noise
PILOT_REPLICATES = 4
MOST_LEVELS = 12  # a factor with more is drawn from a range, and its levels are not compared


@dataclass(frozen=True)
class Unknown:
    """Why nobody knows what the design can see."""

    sentence: str = (
        "which differences this design will see is unknown: no replicates were measured on this machine; "
        "--pilot measures the noise"
    )


def power(study: Study, trials: Plan, folder: Path) -> Power | Unknown:
    """What a plan will be able to see, as far as the noise is known."""
    known = _noise(trials, folder)
    if known is None:
        return Unknown()
    noise, basis = known
    design = study.design
    adaptive = design.type == "adaptive"
    configurations = len(trials.configurations)
    replicates = 1 if adaptive else design.replicates
    columns = trials.configurations.columns
    used = {name: int(np.unique(column.codes).size) for name, column in columns.items()}  # some may be excluded
    levels = {name: number for name, number in used.items() if 1 < number <= MOST_LEVELS}
    if adaptive:  # how trials are spread is decided on the way; the budget tells what levels' averages can show
        configurations = min(configurations, design.trials or configurations)
    wish = (design.difference or DIFFERENCE) if design.aim == "compare" else None
    return design_power(noise, basis, configurations, replicates, levels, wish)


def _noise(trials: Plan, study_folder: Path) -> tuple[float, str] | None:
    """The noise and where it is known from: this folder, else its pilot, else trials of the same kind here."""
    for folder, basis in ((study_folder, "its own trials"), (pilot_folder(study_folder), "its pilot")):
        seen = pooled(scatter(folder).values())
        if seen.freedom >= FEWEST:
            return seen.noise, basis
    shapes = _shapes(trials)
    before = NOISE.read()
    alike = pooled(seen for shape, seen in before.items() if shape in shapes)
    if alike.freedom >= FEWEST:
        return alike.noise, "earlier studies on this machine"
    related = pooled(seen for shape, seen in before.items() if shape.framework in {known.framework for known in shapes})
    if related.freedom >= FEWEST:
        return related.noise, "earlier studies of the same framework on this machine"
    return None


def pooled(scatters: Iterable[Scatter]) -> Scatter:
    """All of them together."""
    total = Scatter()
    for seen in scatters:
        total = total.plus(seen)
    return total


def _shapes(trials: Plan) -> set[Shape]:
    rows = trials.configurations.distinct(("framework", "network", "workers")).first
    resolved = [trials.resolved(int(row)) for row in rows]
    return {Shape(trial.framework, trial.network, trial.workers) for trial in resolved}


def scatter(folder: Path, others: Collection[str] = ()) -> dict[Shape, Scatter]:
    """The noise between replicates in a study's folder, by what its trials are like; nothing without replicates.

    It is what came on top of the `others`, trials whose own noise is counted elsewhere.
    """
    place = StudyFolder(folder)
    if not place.exists() or not records.done(place):
        return {}
    tables = load(folder)
    ok = tables.trials[(tables.trials["status"] == "ok") & (tables.trials["t_iter"] > 0)]
    factors = [name for name in tables.factors if name in ok]
    if not len(ok) or not factors:
        return {}
    scatters: dict[Shape, Scatter] = {}
    for _, rows in ok.groupby(factors, dropna=False):
        seen = _between_replicates(rows).beyond(_between_replicates(rows[rows["trial"].isin(others)]))
        if seen.freedom > 0:
            first = rows.iloc[0]
            shape = Shape(str(first["framework"]), str(first["network"]), int(first["workers"]))
            scatters[shape] = scatters.get(shape, Scatter()).plus(seen)
    return scatters


def _between_replicates(rows: pd.DataFrame) -> Scatter:
    if len(rows) < 2:
        return Scatter()
    logs = np.log(rows["t_iter"].to_numpy(float))
    return Scatter(float(len(logs) - 1), float(((logs - logs.mean()) ** 2).sum()))


def real_noise(scatters: Mapping[Shape, Scatter]) -> dict[Shape, Scatter]:
    """What is worth remembering: the noise of a virtual clock says nothing of this machine."""
    return {shape: seen for shape, seen in scatters.items() if catalogue.framework(shape.framework).needs_environment}


def pilot_folder(folder: Path) -> Path:
    """Where a study's pilot is."""
    return folder.with_name(f"{folder.name}-pilot")


def pilot_plan(study: Study, trials: Plan) -> Plan:
    """A few replicates of the smallest and of the largest configuration."""
    every = trials.configurations
    sizes = [_size(every[row]) for row in range(len(every))] if len(every) <= 5000 else [0.0] * len(every)
    ends = sorted({int(np.argmin(sizes)), int(np.argmax(sizes))})
    kept = every.take(np.array(ends))
    return Plan(kept, Blocks(len(kept), study.design, PILOT_REPLICATES))


def _size(config: Config) -> float:
    resolved = resolve(config)
    return float(resolved.batch_size * resolved.workers)
