"""Inference: the latency of a batch as p50, p95 and p99, and the throughput, of each engine in each setting.

A latency is the native time of one batch in one rank, warm-up aside; the ranks of a trial are taken together. The
quantiles of each trial are those of its own iterations, their intervals come from the replicates, on the log scale. A
quantile is told only where at least one iteration is expected beyond it: p99 takes 100 iterations of a trial.

The p50 of one worker is its step, so that engines have the verdicts of the frameworks' pairs (paired by replicate).
Several workers have a throughput that is not the inverse of their p50, which is judged by its own intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steplab.analysis.configurations import Configurations, configurations
from steplab.analysis.same_configuration import SameConfiguration
from steplab.analysis.statistics.all_pairs import surely_longer
from steplab.analysis.statistics.intervals import Interval, median_intervals
from steplab.core.trial import Level

Array = NDArray[np.float64]
Standing = Literal["lowest", "not told apart", "higher"]
QUANTILES = (0.50, 0.95, 0.99)
ENDS = ("t_iter_low", "t_iter_high")
ENGINE = "framework"


@dataclass(frozen=True)
class Latency:
    """One configuration: quantiles of its latencies in seconds with their intervals over the trials."""

    factors: dict[str, Level]
    trials: int
    iterations: int  # of the trial with the fewest, all ranks together
    p50: Interval
    p95: Interval | None  # None: too few iterations
    p99: Interval | None
    throughput: float | None  # samples/s
    workers: int = 1
    standing: Standing = "lowest"  # by p50, among the engines in the same setting


@dataclass(frozen=True)
class Setting:
    """Engines that did the same: everything but the framework and its own factors is equal; the lowest p50 first."""

    factors: dict[str, Level]
    engines: tuple[Latency, ...]


@dataclass(frozen=True)
class Inference:
    """The answer of a study of kind `infer`."""

    settings: tuple[Setting, ...]

    @property
    def latencies(self) -> list[Latency]:
        """All configurations."""
        return [engine for setting in self.settings for engine in setting.engines]

    @property
    def pairs(self) -> int:
        """The pairs of engines of one setting, of all settings: they are judged at once."""
        return sum(math.comb(len(setting.engines), 2) for setting in self.settings)

    @property
    def lowest(self) -> Latency:
        """The configuration with the lowest median latency."""
        return min(self.latencies, key=lambda latency: latency.p50.median)


def fewest(quantile: float) -> int:
    """How many iterations a trial needs for a quantile.

    >>> [fewest(quantile) for quantile in (0.5, 0.95, 0.99)]
    [2, 20, 100]
    """
    return round(1 / (1 - quantile))


def inference(
    trials: pd.DataFrame, factors: Sequence[str], iterations: pa.Table, steps: SameConfiguration | None = None
) -> Inference | None:
    """The latencies of a study's inferences, None if it has none; `steps` are verdicts on the engines' step times."""
    if "kind" not in trials:
        return None
    cells = configurations(trials[trials["kind"] == "infer"], factors)
    if not len(cells):
        return None
    unranked = Inference(tuple(_settings(_latencies(cells, iterations), cells)))
    ranked = (_ranked(setting.engines, unranked.pairs, steps or SameConfiguration()) for setting in unranked.settings)
    return Inference(
        tuple(replace(setting, engines=engines) for setting, engines in zip(unranked.settings, ranked, strict=True))
    )


def _latencies(cells: Configurations, iterations: pa.Table) -> list[Latency]:
    times = _times(cells, iterations)
    counts = [min(len(times[row]) for row in rows.tolist()) for rows in cells.members]
    quantiles = [_intervals(cells, times, counts, quantile) for quantile in QUANTILES]
    throughput = pd.Series(cells.values("throughput")).groupby(cells.of).median().tolist()
    latencies = []
    for at, (p50, p95, p99) in enumerate(zip(*quantiles, strict=True)):
        assert p50 is not None
        rate = float(throughput[at])
        known = rate if np.isfinite(rate) and rate > 0 else None
        size = len(cells.members[at])
        workers = int(cells.workers[at])
        latencies.append(Latency(cells.factors[at], size, counts[at], p50, p95, p99, known, workers))
    return latencies


def _times(cells: Configurations, iterations: pa.Table) -> list[Array]:
    """The native times of each row, all ranks together; where no iteration is at hand, the trial's own median."""
    table = iterations.select(["trial", "mode", "warmup", "t_iter"])
    table = table.filter(pc.and_(pc.equal(table["mode"], "native"), pc.invert(table["warmup"])))
    frame = table.select(["trial", "t_iter"]).to_pandas()
    by_trial = {trial: rows.to_numpy(dtype=float) for trial, rows in frame.groupby("trial")["t_iter"]}
    alone = cells.values("t_iter")
    return [by_trial.get(trial, alone[row : row + 1]) for row, trial in enumerate(cells.rows["trial"])]


def _intervals(
    cells: Configurations, times: Sequence[Array], counts: Sequence[int], quantile: float
) -> list[Interval | None]:
    """The quantile of each configuration over its trials; that of a single trial has an interval for one rank's p50."""
    middle = quantile == 0.5
    enough = [at for at, count in enumerate(counts) if middle or count >= fewest(quantile)]
    # One that was measured, never one in between: it is what a share of the requests did not exceed.
    method: Literal["linear", "inverted_cdf"] = "linear" if middle else "inverted_cdf"
    groups = [
        np.array([np.quantile(times[row], quantile, method=method) for row in cells.members[at].tolist()])
        for at in enough
    ]
    # Those of a trial are about its step, of which several ranks do more in the same time.
    own = np.where(middle & (cells.workers == 1), 1.0, np.nan)
    ends = [own * cells.values(name)[cells.first] for name in ENDS]
    within = [(float(ends[0][at]), float(ends[1][at])) for at in enough]
    known = dict(zip(enough, median_intervals(groups, within), strict=True)) if enough else {}
    return [known.get(at) for at in range(len(cells))]


def _settings(latencies: Sequence[Latency], cells: Configurations) -> list[Setting]:
    """The engines of each setting."""
    shared = [name for name in cells.keys if name != ENGINE and not cells.rows[name].isna().any()]
    by_setting: dict[tuple[Level, ...], list[Latency]] = {}
    for latency in latencies:
        by_setting.setdefault(tuple(latency.factors[name] for name in shared), []).append(latency)
    return [
        Setting(dict(zip(shared, levels, strict=True)), tuple(engines))
        for levels, engines in sorted(by_setting.items(), key=lambda pair: [_order(level) for level in pair[0]])
    ]


def _order(level: Level) -> tuple[bool, float, str]:
    """Numbers by size, words by the alphabet."""
    return (True, 0.0, level) if isinstance(level, str) else (False, float(level), "")


def _ranked(engines: Sequence[Latency], pairs: int, steps: SameConfiguration) -> tuple[Latency, ...]:
    ordered = sorted(engines, key=lambda engine: engine.p50.median)
    higher = surely_longer([engine.p50 for engine in ordered], pairs)
    return tuple(
        replace(engine, standing="lowest" if not at else _standing(ordered[0], engine, sure, steps))
        for at, (engine, sure) in enumerate(zip(ordered, higher, strict=True))
    )


def _standing(lowest: Latency, engine: Latency, sure: bool, steps: SameConfiguration) -> Standing:
    """Beside the lowest: by the verdict of the two frameworks if there is one, else by the intervals of both."""
    one_worker = lowest.workers == engine.workers == 1
    told = steps.surely_better(lowest.factors, engine.factors) if one_worker else None
    return "higher" if (sure if told is None else told) else "not told apart"
