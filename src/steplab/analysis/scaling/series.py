"""How a study scales with the workers: speed-ups measured and predicted, efficiency, laws, imbalance.

A series is a set of configurations that differ in the number of workers alone. Weak scaling (a batch for each worker)
has S = N·t(1)/t(N), strong scaling (`global_batch_size`) S = t(1)/t(N): both are ratios of throughputs
(MMU thesis, chapter 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.configurations import Configurations, configurations, without_noise
from steplab.analysis.scaling import laws as laws
from steplab.analysis.scaling.imbalance_regression import ImbalanceRegression, regress
from steplab.analysis.scaling.ssgd import closest, predicted_speedups
from steplab.analysis.statistics.intervals import Interval, median_intervals, median_variance
from steplab.analysis.statistics.variances import moderated
from steplab.analysis.summary import Group, Ratio, groups_of
from steplab.core.trial import Level
from steplab.models.formulas.step_composition import Overlap
from steplab_worker.phases import EXCHANGE_PARTS, PHASES

Array = NDArray[np.float64]
Kind = Literal["weak", "strong"]
UNFIT = 0.05  # a p-value below which a law is said not to fit
MOST_REGRESSIONS = 500  # series of a large study beyond that get no regression: nobody reads them, and each takes time


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; no interval where nothing is left to judge it by."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ScalingLaw:
    """A fitted scaling law; `fits` is None where nothing is left to test it with."""

    name: Literal["Amdahl", "Gustafson"]
    serial: Estimate
    points: int
    trials: int
    fits: bool | None
    note: str


@dataclass(frozen=True)
class ScalingPoint:
    """One number of workers of a series."""

    workers: int
    t_iter: Interval
    throughput: float | None
    phases: dict[str, float]
    speedup: Ratio | None
    efficiency: Ratio | None
    predicted: dict[Overlap, float]  # speed-up by the S-SGD formulas from the measured phases
    lif: Estimate | None


@dataclass(frozen=True)
class Scaling:
    """A series: what more workers brought."""

    factors: dict[str, Level]
    kind: Kind
    points: tuple[ScalingPoint, ...]
    law: ScalingLaw | None
    power: Estimate | None  # q of time per sample ∝ N^q; −1 is ideal
    overlap: Overlap | None  # with which overlap the S-SGD formulas come nearest to what was measured
    regression: ImbalanceRegression | None


def scaling(trials: pd.DataFrame, factors: Sequence[str]) -> list[Scaling]:
    """Every series of a study that has at least two numbers of workers."""
    cells = configurations(trials, factors)
    return series_of(cells, groups_of(cells))


def series_of(cells: Configurations, groups: Sequence[Group]) -> list[Scaling]:
    """The series of configurations whose groups are known."""
    members = _members(cells) if len(cells) else []
    if not members:
        return []
    gathered = _gathered(cells, members)
    serial = [laws.fit(law, gathered) for law in (laws.gustafson, laws.amdahl)]
    powers = laws.fit(laws.power, _per_sample(cells, members, gathered))
    phases = cells.medians((*PHASES, *EXCHANGE_PARTS))
    imbalance = _imbalance(cells, groups)
    predicted = predicted_speedups(phases, cells.workers, _bases(cells, members), cells.strong)
    scalings = []
    for at, own in enumerate(members):
        strong = bool(cells.strong[own[0]])
        points = tuple(_point(groups[i], int(cells.workers[i]), predicted[i], imbalance.get(i)) for i in own)
        scalings.append(
            Scaling(
                factors={name: level for name, level in cells.factors[own[0]].items() if name != cells.scale},
                kind="strong" if strong else "weak",
                points=points,
                law=_law(serial[strong], at, gathered, strong),
                power=_estimate(powers, at),
                overlap=closest(points),
                regression=regress(cells, own) if at < MOST_REGRESSIONS else None,
            )
        )
    return sorted(scalings, key=_order)


def _order(scaling: Scaling) -> list[tuple[bool, float, str]]:
    """Numbers by size, words by the alphabet."""
    return [
        (isinstance(level, str), float(level) if not isinstance(level, str) else 0.0, str(level))
        for level in scaling.factors.values()
    ]


def _members(cells: Configurations) -> list[list[int]]:
    """The configurations of each series with several numbers of workers, fewest workers first."""
    by_series: dict[int, list[int]] = {}
    for at in np.argsort(cells.workers, kind="stable").tolist():
        by_series.setdefault(int(cells.series[at]), []).append(at)
    return [by_series[number] for number in sorted(by_series) if len(by_series[number]) > 1]


def _bases(cells: Configurations, members: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """The one-worker configuration of each configuration's series; −1 where there is none."""
    base = np.full(len(cells), -1, dtype=np.int64)
    for own in members:
        if cells.workers[own[0]] == 1:
            base[list(own)] = own[0]
    return base


def _gathered(cells: Configurations, members: Sequence[Sequence[int]]) -> laws.Cells:
    """Logarithms of the median step times and the noise of a trial, by series and number of workers."""
    logs = pd.Series(np.log(cells.values("t_iter"))).groupby(cells.of)
    middle, size, squares = (moment.to_numpy(dtype=float) for moment in (logs.median(), logs.size(), logs.var(ddof=1)))
    noise = moderated(np.nan_to_num(squares), (size - 1).astype(np.float64))
    # A median is less sure than the mean of as many trials; the fits weigh by their number.
    worse = np.array([n * median_variance(int(n)) for n in size.tolist()])
    counts = np.unique(cells.workers)
    y, n, variance, freedom = np.zeros((4, len(members), len(counts)))
    for at, own in enumerate(members):
        columns = np.searchsorted(counts, cells.workers[list(own)])
        y[at, columns], n[at, columns] = middle[own], size[own]
        variance[at, columns] = np.nan_to_num(noise.variance[own]) * worse[own]
        freedom[at, columns] = noise.freedom[own]
    # A single trial beside replicates: nothing tells its noise, and it is not none.
    lost = np.array([0 < np.isnan(noise.variance[own]).sum() < len(own) for own in members], dtype=bool)
    judged = ~lost & (not without_noise(cells.rows, cells.keys))
    return laws.Cells(counts.astype(float), y, n, variance, freedom, noise.pool, judged)


def _per_sample(cells: Configurations, members: Sequence[Sequence[int]], gathered: laws.Cells) -> laws.Cells:
    """The same for the time of a sample: under weak scaling N workers share a step's time."""
    strong = np.array([cells.strong[own[0]] for own in members])
    shared = np.where(strong[:, None], 0.0, np.log(gathered.workers)[None, :])
    return replace(gathered, y=gathered.y - shared)


def _point(group: Group, workers: int, predicted: dict[Overlap, float], lif: Estimate | None) -> ScalingPoint:
    s = group.speedup
    efficiency = s.over(workers) if s else None
    return ScalingPoint(workers, group.t_iter, group.throughput, group.phases, s, efficiency, predicted, lif)


def _imbalance(cells: Configurations, groups: Sequence[Group]) -> dict[int, Estimate]:
    """The load imbalance factor of each configuration where it was measured, with the replicates' interval.

    LIF ≥ 1 by definition, and noise alone lifts it a little above 1. That of one worker is 1 and no measurement.
    """
    lif = cells.values("lif")
    have = [at for at, group in enumerate(groups) if group.lif is not None and cells.workers[at] > 1]
    values = [own[np.isfinite(own)] for own in (lif[cells.members[at]] for at in have)]
    unknown = (float("nan"), float("nan"))
    intervals = median_intervals(values, [unknown] * len(values))
    return {
        at: Estimate(i.median, *((None, None) if i.ends is None else (max(end, 1.0) for end in i.ends)))
        for at, i in zip(have, intervals, strict=True)
    }


def _estimate(fits: laws.Fits, at: int) -> Estimate | None:
    value, low, high = (float(column[at]) for column in (fits.value, fits.low, fits.high))
    if not np.isfinite(value):
        return None
    return Estimate(value, *((low, high) if np.isfinite(low) and np.isfinite(high) else (None, None)))


def _law(fits: laws.Fits, at: int, gathered: laws.Cells, strong: bool) -> ScalingLaw | None:
    serial = _estimate(fits, at)
    if serial is None:
        return None
    points, p = int(gathered.points[at]), float(fits.misfit[at])
    bad = bool(p < UNFIT) if np.isfinite(p) else None
    name: Literal["Amdahl", "Gustafson"] = "Amdahl" if strong else "Gustafson"
    note = _law_note(name, serial, points, bad)
    return ScalingLaw(name, serial, points, int(gathered.trials[at]), None if bad is None else not bad, note)


def _law_note(name: str, serial: Estimate, points: int, bad: bool | None) -> str:
    """What must be said beside the number."""
    notes = []
    if points == 2:
        notes.append("Two numbers of workers fit any such law: it is a description, not a test.")
    if bad:
        notes.append(f"The replicates contradict {name}'s law here: do not extrapolate with it.")
    if serial.low is None:
        notes.append("Nothing is left over for an interval: add replicates.")
    if (serial.high if serial.high is not None else serial.value) < 0:
        notes.append("It scales better than ideally: look for a cache effect or a disturbed measurement at one worker.")
    if (serial.low if serial.low is not None else serial.value) > 1:
        notes.append(
            "More workers are slower than one, which no serial share explains: communication or contention does."
        )
    return " ".join(notes)
