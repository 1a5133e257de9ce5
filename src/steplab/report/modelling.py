"""The models of a report: fitted to the study's own trials in little time, judged on held-out rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.core.errors import SteplabError
from steplab.core.units import seconds, span
from steplab.models import load_model_class
from steplab.models.auto import Auto
from steplab.models.base import PerformanceModel
from steplab.models.columns.training_rows import Chosen
from steplab.models.judging.penalty_scan import ScanRow, scan
from steplab.models.judging.selection import held_out, metrics, random_folds

Array = NDArray[np.float64]
FOLDS = 5
FEW_ROWS = 200  # up to that many rows every one is predicted by a model that has not seen it
FEWEST_FOR_SCAN = 12
MOST_FOR_SCAN = 240
ENOUGH_ROWS = 150  # of a large study, to fit the model that is judged; the model that is shown has all rows
MOST_FORECASTS = 3
DEFAULT = "auto"  # stands first in the forecast
FARTHEST = 4  # the forecast goes to that many times the most workers measured


@dataclass(frozen=True)
class Judged:
    """A model and how well it predicts: NaN where a row was not predicted."""

    name: str
    model: PerformanceModel | None
    predicted: Array
    mape: float
    r2: float
    coverage: float
    seconds: float
    reason: str = ""
    formula: str = ""


@dataclass(frozen=True)
class Forecast:
    """Step times of a model against workers, in seconds, with a 90 % interval."""

    name: str
    workers: list[int]
    value: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Modelled:
    """The models of a study, best first, with what they predict."""

    judged: tuple[Judged, ...] = ()
    measured: Array = field(default_factory=lambda: np.empty(0))
    how: str = ""  # on which rows they were judged
    reason: str = ""  # why there is no model
    scan: tuple[ScanRow, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    forecast_of: str = ""
    forecast_points: Array = field(default_factory=lambda: np.empty((0, 2)))  # workers, seconds
    workers_range: tuple[int, int] = (1, 1)

    def sentences(self) -> list[tuple[str, str]]:
        """What the models say, each with the section that shows it."""
        texts = []
        best = next((judged for judged in self.judged if np.isfinite(judged.mape)), None)
        if best is not None:
            text = f"Inside the measured range, {best.name} predicts {self.how} best, {best.mape:.1f} % off on average"
            covered = f"; {best.coverage:.0%} of them lie in its 90 % intervals" if np.isfinite(best.coverage) else ""
            texts.append((f"{text}{covered}.", "predicted"))
        if self.forecasts:
            texts.append((self._forecast_sentence(self.forecasts[0]), "forecast"))
        return texts

    def _forecast_sentence(self, forecast: Forecast) -> str:
        at = forecast.workers.index(min(2 * self.workers_range[1], forecast.workers[-1]))
        ends = float(forecast.low[at]), float(forecast.high[at])
        interval = span(*ends) if np.isfinite(ends).all() else "no interval can be given from so few counts of workers"
        return (
            f"With {forecast.workers[at]} workers ({self.forecast_of}), {forecast.name} predicts a step of "
            f"{seconds(float(forecast.value[at]))} ({interval}); nobody has measured more than {self.workers_range[1]}."
        )


def model_study(chosen: Chosen, names: Sequence[str], budget_s: float) -> Modelled:
    """Fit the named models to the rows, each judged on held-out rows; for a large study, until the time is used up."""
    began, y = time.process_time(), chosen.y.to_numpy(float)
    splits, how = _splits(chosen)
    judged = []
    for name in names:
        # A small study gets all of them, on a busy machine too: the same study has the same report.
        if len(y) > FEW_ROWS and time.process_time() - began > budget_s:
            judged.append(_unfitted(name, len(y), f"left out: the models had used up their {budget_s:g} s"))
            continue
        judged.append(_judged(name, chosen, y, splits))
    modelled = Modelled(judged=_ranked(judged), measured=y, how=how)
    quick = len(y) <= MOST_FOR_SCAN or time.process_time() - began < budget_s
    if "generic" in names and len(y) >= FEWEST_FOR_SCAN and quick:
        modelled = replace(modelled, scan=_scan(chosen, y))
    return modelled


def given_models(chosen: Chosen, models: Sequence[tuple[str, PerformanceModel]]) -> Modelled:
    """Models that were fitted before, judged on the study's trials."""
    y = chosen.y.to_numpy(float)
    judged = []
    for name, model in models:
        try:
            predicted = model.predict(chosen.X) if model.target_ == str(chosen.y.name) else np.full(len(y), np.nan)
            reason = "" if model.target_ == str(chosen.y.name) else f"it predicts {model.target_}"
        except SteplabError as error:
            predicted, reason = np.full(len(y), np.nan), str(error)
        judged.append(_scored(name, model, y, predicted, np.nan, 0.0, reason))
    return Modelled(judged=_ranked(judged), measured=y, how="the study's trials")


def with_forecast(modelled: Modelled, chosen: Chosen, config: dict[str, object]) -> Modelled:
    """The same with step times against workers, other factors as in that configuration."""
    X, columns = chosen.X, list(chosen.roles.columns)
    if "workers" not in columns or X["workers"].nunique() < 2:
        return modelled
    others = {name: config[name] for name in columns if name != "workers" and name in config}
    if set(columns) - set(others) - {"workers"}:
        return modelled
    low, high = int(X["workers"].min()), int(X["workers"].max())
    reach = sorted(
        {*range(1, high + 1), *np.linspace(high, FARTHEST * high, 25).round().astype(int).tolist(), 2 * high}
    )
    usable = [judged for judged in modelled.judged if judged.model is not None and np.isfinite(judged.mape)]
    usable.sort(key=lambda judged: judged.name != DEFAULT)
    drawn = [f for f in (_forecast(judged, others, reach) for judged in usable[:MOST_FORECASTS]) if f is not None]
    same = np.all([(X[name] == level).to_numpy() for name, level in others.items()] or [np.ones(len(X), bool)], axis=0)
    points = np.column_stack([X["workers"].to_numpy(float), chosen.y.to_numpy(float)])[same]
    return replace(
        modelled, forecasts=tuple(drawn), forecast_points=points, workers_range=(low, high),
        forecast_of=", ".join(f"{name}={level}" for name, level in others.items()) or "all else equal",
    )  # fmt: skip


def _forecast(judged: Judged, others: dict[str, object], workers: list[int]) -> Forecast | None:
    assert judged.model is not None
    table = pd.DataFrame([{**others, "workers": count} for count in workers])
    try:
        value = judged.model.predict(table)
        low, high = judged.model.predict_interval(table, 0.9)
    except SteplabError:
        return None
    return Forecast(judged.name, workers, value, low, high)


def _splits(chosen: Chosen) -> tuple[list[tuple[Array, Array]], str]:
    """Folds to judge by: all of them for a small study, one for a large one."""
    try:
        folds = random_folds(len(chosen.y), chosen.groups, FOLDS)
    except SteplabError:
        return [], "the trials it was fitted to"
    if len(chosen.y) <= FEW_ROWS:
        return folds, "held-out trials"
    train, test = folds[0]
    some = train[np.unique(np.linspace(0, len(train) - 1, min(len(train), ENOUGH_ROWS)).astype(int))]
    return [(some, test)], f"a held-out fifth of the trials (from {len(some)} others)"


def _judged(name: str, chosen: Chosen, y: Array, splits: list[tuple[Array, Array]]) -> Judged:
    began = time.process_time()
    roles = chosen.roles
    model = load_model_class(name)(roles.intrinsic, roles.categorical, roles.extrinsic)
    try:
        with np.errstate(all="ignore"):
            model.fit(chosen.X, chosen.y, chosen.groups)
    except SteplabError as error:
        return _unfitted(name, len(y), str(error))
    except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
        # A model that breaks on unusual data is shown as such; the report goes on.
        return _unfitted(name, len(y), f"it failed with {type(error).__name__}: {error}".partition("\n")[0])
    if not splits:
        return _scored(name, model, y, model.predict(chosen.X), np.nan, time.process_time() - began, "")
    # What `auto` chose is judged in its place: choosing again in every fold would cost more than all the others.
    told = held_out(model.chosen_ if isinstance(model, Auto) else model, chosen.X, y, splits, chosen.groups)
    score = told.score(y)
    coverage = np.nan if score is None else score[1]
    return _scored(name, model, y, told.predicted, coverage, time.process_time() - began, told.reason)


def _scored(
    name: str, model: PerformanceModel, y: Array, predicted: Array, coverage: float, spent: float, reason: str
) -> Judged:
    seen = np.isfinite(predicted)
    score = metrics(y[seen], predicted[seen]) if seen.any() else None
    formula = model.formula()
    return Judged(
        name, model, predicted, score.mape if score else np.nan, score.r2 if score else np.nan, float(coverage), spent,
        reason, formula.text if formula else "",
    )  # fmt: skip


def _unfitted(name: str, rows: int, reason: str) -> Judged:
    return Judged(name, None, np.full(rows, np.nan), np.nan, np.nan, np.nan, 0.0, reason)


def _ranked(judged: Sequence[Judged]) -> tuple[Judged, ...]:
    """The least error first; models without one last."""
    return tuple(sorted(judged, key=lambda model: (not np.isfinite(model.mape), model.mape)))


def _scan(chosen: Chosen, y: Array) -> tuple[ScanRow, ...]:
    """The scan on all rows, or on evenly chosen ones of a large study."""
    some = np.unique(np.linspace(0, len(y) - 1, min(len(y), MOST_FOR_SCAN)).astype(int))
    groups = None if chosen.groups is None else chosen.groups[some]
    try:
        return tuple(scan(chosen.X.iloc[some], y[some], chosen.roles, groups))
    except (SteplabError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return ()
