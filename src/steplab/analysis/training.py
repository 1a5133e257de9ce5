"""Trainings: who reached the target accuracy, after how many epochs and seconds, who did not and how near it came.

Seconds are those of training, without the looks at the accuracy. They are known to the epoch at which somebody looked:
the target was reached there or since the look before. A run that ended below the target is censored: it is counted,
and no time is made up for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from steplab.analysis.configurations import Configurations, configurations
from steplab.analysis.same_configuration import SameConfiguration
from steplab.analysis.statistics.all_pairs import surely_longer
from steplab.analysis.statistics.intervals import Interval, median_intervals
from steplab.core.trial import Level

# Of a configuration, beside the one whose runs all reached the target in the least median time.
Standing = Literal["soonest", "not told apart", "later", "some runs", "not reached"]


@dataclass(frozen=True)
class CurvePoint:
    """A look at the accuracy: after so many epochs and seconds of training, validation apart."""

    epoch: int
    seconds: float
    accuracy: float


@dataclass(frozen=True)
class AccuracyCurve:
    """The validation accuracy of one run from look to look."""

    trial: str
    factors: dict[str, Level]
    replicate: int
    points: tuple[CurvePoint, ...]

    def reached(self, target: float | None) -> CurvePoint | None:
        """The first look at which the target was reached."""
        return next((point for point in self.points if target is not None and point.accuracy >= target), None)

    @property
    def best(self) -> CurvePoint:
        """The first look at the highest accuracy."""
        return max(self.points, key=lambda point: point.accuracy)


@dataclass(frozen=True)
class Range:
    """The median over runs, and the least and the most of them."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class TimeToAccuracy:
    """The runs of one configuration: how soon they reached the target, and the best accuracy they came to."""

    factors: dict[str, Level]
    runs: int
    reached: int
    seconds: Interval | None  # to the target; an interval only if all runs reached it, None if not more than half did
    epochs: Range | None  # to the target, of the runs that reached it
    best: Range  # accuracy
    trained_epochs: int  # of the longest run
    trained_s: float  # median
    standing: Standing


@dataclass(frozen=True)
class Training:
    """The answer of a study of kind `train`; `configurations` are ranked, the soonest first, the farthest last."""

    target: float | None
    configurations: tuple[TimeToAccuracy, ...]
    curves: tuple[AccuracyCurve, ...]

    def standing(self, *standings: Standing) -> list[TimeToAccuracy]:
        """The configurations that stand so."""
        return [configuration for configuration in self.configurations if configuration.standing in standings]

    def did_reach(self, factors: dict[str, Level]) -> bool:
        """Whether any run of a configuration reached the target; without a target every configuration counts."""
        if self.target is None:
            return True
        return any(configuration.reached for configuration in self.configurations if configuration.factors == factors)


def training(
    trials: pd.DataFrame, factors: Sequence[str], epochs: pa.Table, times: SameConfiguration | None = None
) -> Training | None:
    """What the trainings of a study reached, None if it has none that was looked at.

    `times` are the verdicts on times to accuracy of configurations that differ in the framework alone.
    """
    if "kind" not in trials or "target_accuracy" not in trials:
        return None
    cells = configurations(trials[trials["kind"] == "train"], factors)
    curves = _curves(cells, epochs) if len(cells) else {}
    if not curves:
        return None
    target = float(cells.values("target_accuracy").max())
    wanted = None if np.isnan(target) else target
    each = [[curves[row] for row in rows.tolist() if row in curves] for rows in cells.members]
    reports = _reports([runs for runs in each if runs], wanted, times or SameConfiguration())
    return Training(wanted, tuple(sorted(reports, key=_rank)), tuple(curves.values()))


def _curves(cells: Configurations, epochs: pa.Table) -> dict[int, AccuracyCurve]:
    """The curve of each row that has one."""
    frame: pd.DataFrame = epochs.select(["trial", "epoch", "seconds", "validation_accuracy"]).to_pandas()
    frame = frame.sort_values(["trial", "epoch"])
    frame["passed"] = frame.groupby("trial")["seconds"].cumsum()
    looks = dict(list(frame[frame["validation_accuracy"].notna()].groupby("trial")))
    names = zip(cells.rows["trial"], cells.rows["replicate"], cells.of.tolist(), strict=True)
    return {
        row: AccuracyCurve(str(trial), cells.factors[of], int(replicate), _points(looks[trial]))
        for row, (trial, replicate, of) in enumerate(names)
        if trial in looks
    }


def _points(rows: pd.DataFrame) -> tuple[CurvePoint, ...]:
    columns = zip(rows["epoch"], rows["passed"], rows["validation_accuracy"], strict=True)
    return tuple(CurvePoint(int(epoch), float(passed), float(accuracy)) for epoch, passed, accuracy in columns)


def _reports(
    each: Sequence[Sequence[AccuracyCurve]], target: float | None, frameworks: SameConfiguration
) -> list[TimeToAccuracy]:
    """The configurations by their runs; those of which all runs reached the target are judged together."""
    times = [[curve.reached(target) for curve in runs] for runs in each]
    whole = [at for at, points in enumerate(times) if None not in points]
    unknown = (float("nan"), float("nan"))
    seconds = [np.array([point.seconds for point in times[at] if point is not None]) for at in whole]
    intervals = dict(zip(whole, median_intervals(seconds, [unknown] * len(whole)), strict=True)) if whole else {}
    later = dict(zip(whole, surely_longer([intervals[at] for at in whole]), strict=True))
    soonest = min(whole, key=lambda at: intervals[at].median, default=-1)
    for at in whole:
        told = frameworks.surely_better(each[soonest][0].factors, each[at][0].factors)
        later[at] = later[at] if told is None else told
    verdicts: dict[int, Standing] = {
        at: "soonest" if at == soonest else "later" if sure else "not told apart" for at, sure in later.items()
    }
    return [
        _report(runs, points, intervals.get(at), verdicts.get(at))
        for at, (runs, points) in enumerate(zip(each, times, strict=True))
    ]


def _report(
    runs: Sequence[AccuracyCurve], points: Sequence[CurvePoint | None], whole: Interval | None, verdict: Standing | None
) -> TimeToAccuracy:
    there = [point for point in points if point is not None]
    return TimeToAccuracy(
        factors=runs[0].factors,
        runs=len(runs),
        reached=len(there),
        seconds=whole or _censored([np.inf if point is None else point.seconds for point in points]),
        epochs=_range([point.epoch for point in there]) if there else None,
        best=_range([curve.best.accuracy for curve in runs]),
        trained_epochs=max(curve.points[-1].epoch for curve in runs),
        trained_s=float(np.median([curve.points[-1].seconds for curve in runs])),
        standing=verdict or ("some runs" if there else "not reached"),
    )


def _censored(seconds: Sequence[float]) -> Interval | None:
    """The median run's time where others did not get there: known as long as the median run did."""
    median = float(np.quantile(seconds, 0.5, method="higher"))
    return Interval(median, None, None, len(seconds), "none") if np.isfinite(median) else None


def _range(values: Sequence[float]) -> Range:
    return Range(float(np.median(values)), float(min(values)), float(max(values)))


def _rank(configuration: TimeToAccuracy) -> tuple[float, float, float]:
    """All runs there before some, the sooner first; of those that never were there the nearest first."""
    seconds = np.inf if configuration.seconds is None else configuration.seconds.median
    return -configuration.reached / configuration.runs, seconds, -configuration.best.median
