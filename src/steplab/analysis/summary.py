"""One row per configuration: median step time with its interval, phases, imbalance, speed-up, efficiency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from steplab.analysis.intervals import Interval, median_intervals
from steplab.core.trial import Level, plain_level

PHASES = ("t_io", "t_h2d", "t_md", "t_f", "t_b", "t_c", "t_u", "t_other")


@dataclass(frozen=True)
class Ratio:
    """A speed-up with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Group:
    """The trials of one configuration."""

    factors: dict[str, Level]
    t_iter: Interval
    phases: dict[str, float]
    lif: float | None
    throughput: float
    observer_cost: float | None
    speedup: Ratio | None = None
    efficiency: float | None = None


def summarise(trials: pd.DataFrame, factors: Sequence[str]) -> list[Group]:
    """The configurations of a study that have measured trials, the fastest throughput first."""
    ok = trials[(trials["status"] == "ok") & (trials["t_iter"] > 0)] if len(trials) else trials
    if not len(ok):
        return []
    keys = [name for name in factors if name in ok]
    parts = [part for _, part in ok.groupby(keys, dropna=False, sort=False)] if keys else [ok]
    times = [part["t_iter"].to_numpy(dtype=float) for part in parts]
    within = [(float(part["t_iter_low"].iloc[0]), float(part["t_iter_high"].iloc[0])) for part in parts]
    intervals = median_intervals(times, within)
    groups = [_group(part, keys, interval) for part, interval in zip(parts, intervals, strict=True)]
    return sorted(_with_speedups(groups, parts), key=lambda group: -group.throughput)


def _group(part: pd.DataFrame, keys: Sequence[str], interval: Interval) -> Group:
    first = part.iloc[0]
    phases = {name: _median(part, name) for name in PHASES}
    return Group(
        factors={name: plain_level(first[name]) for name in keys if not _missing(first[name])},
        t_iter=interval,
        phases={name: value for name, value in phases.items() if value is not None},
        lif=_median(part, "lif"),
        throughput=float(first["batch_size"]) * float(first["workers"]) / interval.median,
        observer_cost=_median(part, "observer_cost"),
    )


def _median(part: pd.DataFrame, name: str) -> float | None:
    values = part[name].dropna() if name in part else pd.Series(dtype=float)
    return float(values.median()) if len(values) else None


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _with_speedups(groups: Sequence[Group], parts: Sequence[pd.DataFrame]) -> list[Group]:
    """Speed-up against one worker of the same configuration: the ratio of throughputs.

    For a batch per worker (weak scaling) this is the S = N·t(1)/t(N) of the S-SGD model; for a global batch (strong
    scaling) it is t(1)/t(N).
    """
    workers = [int(part["workers"].iloc[0]) for part in parts]
    alone = {_rest(group): group for group, count in zip(groups, workers, strict=True) if count == 1}
    made = []
    for group, count in zip(groups, workers, strict=True):
        base = alone.get(_rest(group))
        if base is None:
            made.append(group)
            continue
        speedup = _ratio(group, base) if count > 1 else Ratio(1.0, 1.0, 1.0)
        made.append(replace(group, speedup=speedup, efficiency=speedup.value / count))
    return made


def _rest(group: Group) -> tuple[tuple[str, Level], ...]:
    return tuple(sorted((name, level) for name, level in group.factors.items() if name != "workers"))


def _ratio(group: Group, base: Group) -> Ratio:
    """The ratio of two throughputs; independent errors add in squares on the log scale."""
    value = group.throughput / base.throughput
    up = np.hypot(np.log(group.t_iter.median / group.t_iter.low), np.log(base.t_iter.high / base.t_iter.median))
    down = np.hypot(np.log(group.t_iter.high / group.t_iter.median), np.log(base.t_iter.median / base.t_iter.low))
    return Ratio(value, float(value * np.exp(-down)), float(value * np.exp(up)))
