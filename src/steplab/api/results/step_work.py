"""What a step of each trial computes and on what: FLOPs, tokens, the roof above, the power. Nothing is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from steplab import kinds
from steplab.analysis.configurations import missing
from steplab.analysis.utilisation import FLOPS, POWERS, ROOF, TOKENS
from steplab.core import catalogue
from steplab.core.errors import SteplabError
from steplab.core.own_code import is_own
from steplab.core.resolution import data_spec
from steplab.core.trial import Level, plain_level
from steplab.costs.network import cost
from steplab.costs.roofs import FLOAT32, Ceilings
from steplab.runner.instruments.ceilings import known_ceilings
from steplab.runner.workloads import workload_of
from steplab.store.paths import StudyFolder
from steplab.store.records import read_record
from steplab_worker.machine import machine

NEEDED = ("framework", "network", "dataset", "batch_size", "workers", "threads")
VIRTUAL = "virtual"  # the device of frameworks that compute nothing


def with_step_work(trials: pd.DataFrame, factors: Sequence[str], folder: Path) -> pd.DataFrame:
    """The trials with columns of what their steps do, as far as it is known; counted once for each configuration."""
    names = [name for name in dict.fromkeys([*NEEDED, *factors, "kind", "host", "nodes"]) if name in trials]
    if not len(trials) or not set(NEEDED) <= set(names):
        return trials
    numbers = trials.groupby(names, dropna=False, sort=False).ngroup()
    first = trials.loc[~numbers.duplicated(), names]
    devices, roofs = _devices(trials, folder), known_ceilings()
    rows = [step_work(row, devices, roofs) for row in first.to_dict("records")]
    known = pd.DataFrame(rows, columns=[FLOPS, TOKENS, ROOF], dtype=float).loc[numbers].set_index(trials.index)
    return trials.assign(**known, **_powers(trials))


def _powers(trials: pd.DataFrame) -> dict[str, pd.Series]:
    """The mean power of each trial, in the column of its provenance: what a counter told and an estimate do not mix."""
    watts = pd.to_numeric(trials["energy_j"], errors="coerce") / pd.to_numeric(trials["seconds"], errors="coerce")
    return {column: watts.where(trials["energy_provenance"] == provenance) for column, provenance in POWERS.items()}


def _devices(trials: pd.DataFrame, folder: Path) -> dict[tuple[str, str], str]:
    """What each framework ran on at each host, from a record of both; empty where it ran on several."""
    place, good = StudyFolder(folder), trials[trials["status"] == "ok"]
    named = [name for name in ("framework", "host", "device") if name in good]
    devices: dict[tuple[str, str], str] = {}
    for row in good.drop_duplicates(named).to_dict("records"):
        try:
            device = read_record(place, str(row["trial"])).versions.get("device", "")
        except SteplabError:
            continue
        key = str(row["framework"]), str(row["host"])
        devices[key] = device if devices.get(key, device) == device else ""
    return devices


def step_work(
    row: Mapping[Any, Any], devices: Mapping[tuple[str, str], str], roofs: Ceilings | None
) -> tuple[float | None, float | None, float | None]:
    """FLOPs and tokens of an iteration of all workers, and the roof; what cannot be counted is not known."""
    if any(missing(row[name]) for name in NEEDED):
        return None, None, None
    config = {str(name): plain_level(level) for name, level in row.items() if not missing(level)}
    kind, device = str(config.get("kind", "step")), devices.get((str(config["framework"]), str(config.get("host"))), "")
    try:
        flops, tokens = _per_sample(_counted(config), kinds.named(kind).learns)
    except SteplabError:
        return None, None, None
    samples = float(config["batch_size"]) * float(config["workers"])
    if device == VIRTUAL:
        return None, samples * tokens or None, None
    return samples * flops, samples * tokens or None, _roof(config, device, roofs)


def _counted(config: Mapping[str, Level]) -> tuple[tuple[str, Level], ...]:
    """What FLOPs and tokens of a sample depend on; whole numbers that a table holds as others are whole again."""
    options = {} if is_own(config["network"]) else catalogue.network_options(str(config["network"]))
    levels: dict[str, Level] = {"network": config["network"], "dataset": config["dataset"]}
    for name in sorted(set(options) & set(config)):
        level, default = config[name], options[name].default
        whole = isinstance(default, int) and isinstance(level, float) and level.is_integer()
        levels[name] = int(level) if whole and not isinstance(default, bool) else level
    return tuple(levels.items())


@lru_cache(maxsize=4096)
def _per_sample(levels: tuple[tuple[str, Level], ...], learns: bool) -> tuple[float, float]:
    """FLOPs of a sample's products, with backward if it learns, and its tokens, 0 if it has none."""
    resolved, workload = workload_of({**dict(levels), "batch_size": 1})
    totals, spec = cost(workload).totals, data_spec(resolved)
    backward = totals.backward_matmul_flops if learns else 0
    return float(totals.forward_matmul_flops + backward), float(spec.shape[0]) if spec.is_text else 0.0


def _roof(config: Mapping[str, Level], device: str, roofs: Ceilings | None) -> float | None:
    """The roof of all workers' threads, if they were on this machine's CPUs and it was measured in their precision."""
    here = device == "cpu" and config.get("host") == machine().host and float(config.get("nodes", 1)) == 1
    precision = str(config.get("precision", FLOAT32))
    if roofs is None or not here or precision not in roofs.precisions:
        return None
    return roofs.row(int(config["workers"]) * int(config["threads"]), precision).flops_per_s
