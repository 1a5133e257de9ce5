"""One row per configuration: median step time with its interval, phases, imbalance, speed-up, efficiency.

The interval of a speed-up holds for all speed-ups of the study at once, so that it decides whether there is one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from steplab.analysis.configurations import Configurations, configurations
from steplab.analysis.statistics.differences import critical, difference
from steplab.analysis.statistics.intervals import Interval, median_intervals, ratio_error
from steplab.analysis.utilisation import COLUMNS as WORK
from steplab.analysis.utilisation import Utilisation, utilisation
from steplab.core.trial import Level
from steplab_worker.phases import SHARES


@dataclass(frozen=True)
class Ratio:
    """A speed-up with its interval; none where one of the two times is that of a single trial."""

    value: float
    low: float | None
    high: float | None

    def over(self, divisor: float) -> Ratio:
        """A share of it."""
        ends = (None if end is None else end / divisor for end in (self.low, self.high))
        return Ratio(self.value / divisor, *ends)


APART = 0.10  # from this share on the phased step is another step than the native one, and shares must say whose


@dataclass(frozen=True)
class Group:
    """The trials of one configuration."""

    factors: dict[str, Level]
    t_iter: Interval
    phases: dict[str, float]
    lif: float | None
    throughput: float | None  # samples/s; None where the batch size is not known
    rate: float  # the same where it is known, otherwise work per second in a unit of the study's own: for ratios
    observer_cost: float | None
    speedup: Ratio | None = None
    efficiency: float | None = None
    workers: int = 1
    utilisation: Utilisation | None = None  # None where neither FLOPs nor tokens are known

    @property
    def speed(self) -> float:
        """What configurations are ranked by: the throughput, or steps per second where it is not known."""
        return 1.0 / self.t_iter.median if self.throughput is None else self.throughput

    @property
    def phased_apart(self) -> str:
        """By how much the phased step, which the phases are shares of, differs from the native one; empty if little."""
        cost = self.observer_cost or 0.0
        if abs(cost) <= APART:
            return ""
        return f"{abs(cost):.0%} {'longer' if cost > 0 else 'shorter'} than the native one"


def summarise(trials: pd.DataFrame, factors: Sequence[str]) -> list[Group]:
    """The configurations of a study that have measured trials, the fastest first."""
    return sorted(groups_of(configurations(trials, factors)), key=lambda group: -group.speed)


def groups_of(cells: Configurations) -> list[Group]:
    """One group for each configuration, in their order."""
    if not len(cells):
        return []
    times = cells.values("t_iter")
    low, high = (cells.values(name)[cells.first].tolist() for name in ("t_iter_low", "t_iter_high"))
    intervals = median_intervals([times[rows] for rows in cells.members], list(zip(low, high, strict=True)))
    medians = cells.medians([*SHARES, "lif", "observer_cost", *WORK])
    groups = [
        _group(levels, interval, own, work, known=not cells.unknown_work)
        for levels, interval, own, work in zip(
            cells.factors, intervals, medians.to_dict("records"), cells.work.tolist(), strict=True
        )
    ]
    return _with_speedups(groups, cells)


def _group(levels: dict[str, Level], interval: Interval, own: dict[Hashable, float], work: float, known: bool) -> Group:
    values = {str(name): value for name, value in own.items() if value == value}
    return Group(
        factors=levels,
        t_iter=interval,
        phases={name: values[name] for name in SHARES if name in values},
        lif=values.get("lif"),
        throughput=work / interval.median if known else None,
        rate=work / interval.median,
        observer_cost=values.get("observer_cost"),
        utilisation=utilisation(interval, values),
    )


def _with_speedups(groups: Sequence[Group], cells: Configurations) -> list[Group]:
    """Speed-up against one worker of the same configuration: the ratio of throughputs.

    For a batch per worker (weak scaling) this is the S = N·t(1)/t(N) of the S-SGD model; for a global batch (strong
    scaling) it is t(1)/t(N).
    """
    workers, series = cells.workers.tolist(), cells.series.tolist()
    alone = {own: group for group, own, count in zip(groups, series, workers, strict=True) if count == 1}
    questions = sum(count > 1 and own in alone for own, count in zip(series, workers, strict=True))
    pool = replicates_freedom(groups)
    compared = []
    for group, own, count in zip(groups, series, workers, strict=True):
        base = alone.get(own)
        if base is None:
            compared.append(replace(group, workers=count))
            continue
        speedup = throughput_ratio(group, base, questions, pool) if count > 1 else Ratio(1.0, 1.0, 1.0)
        compared.append(replace(group, speedup=speedup, efficiency=speedup.value / count, workers=count))
    return compared


def replicates_freedom(groups: Sequence[Group]) -> float:
    """The degrees of freedom of all replicates, which no comparison has more of."""
    return float(sum(group.t_iter.n - 1 for group in groups))


def throughput_ratio(group: Group, base: Group, questions: float, pool: float) -> Ratio:
    """The ratio of two throughputs, as one of several questions that are judged at once.

    Independent errors add in squares on the log scale; `pool` is the degrees of freedom of all replicates.
    """
    known = ratio_error(group.t_iter, base.t_iter, pool)
    half = None if known is None else float(critical(known[1], questions)) * known[0]
    told = difference(math.log(group.rate / base.rate), half)
    return Ratio(told.ratio, told.low, told.high)
