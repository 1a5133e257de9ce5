"""Judging performance models on rows that they have not seen: random folds and held-out ranges."""

from __future__ import annotations

import math
import operator
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from steplab.core.errors import ModelError, NotEnoughData, SteplabError, TableError, nearest
from steplab.core.parsing import parsing
from steplab.models.base import PerformanceModel, folds
from steplab.models.columns.roles import features

Array = np.ndarray
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    ">": operator.gt,
}  # fmt: skip
COVERAGE_LEVEL = 0.9


@dataclass(frozen=True)
class Metrics:
    """Errors of predictions: `mae`, `rmse` in the target's unit, `mape` in per cent of the measured value."""

    mae: float
    mape: float
    rmse: float
    r2: float


def metrics(measured: Array, predicted: Array) -> Metrics:
    """The errors of predictions; rows measured as zero have no relative error and are left out of `mape`.

    >>> metrics(np.array([1.0, 2.0]), np.array([1.1, 2.0])).mape
    5.000000000000004
    """
    error = np.asarray(predicted, float) - np.asarray(measured, float)
    nonzero = measured != 0
    mape = 100 * float(np.mean(np.abs(error[nonzero] / measured[nonzero]))) if nonzero.any() else math.nan
    total = float(np.sum((measured - np.mean(measured)) ** 2))
    r2 = 1 - float(np.sum(error**2)) / total if total > 0 else math.nan
    return Metrics(float(np.mean(np.abs(error))), mape, math.sqrt(float(np.mean(error**2))), r2)


@dataclass(frozen=True)
class Holdout:
    """A comparison of a column; the rows for which it is true are kept for judging."""

    column: str
    comparison: str
    value: str

    @property
    def text(self) -> str:
        """The condition as it is written."""
        return f"{self.column}{self.comparison}{self.value}"

    def rows(self, frame: pd.DataFrame) -> Array:
        """Which rows are held out."""
        if self.column not in frame.columns:
            hint = nearest(self.column, [str(column) for column in frame.columns])
            raise TableError(f"there is no column {self.column!r}", where="holdout", hint=hint)
        values = frame[self.column]
        compare = COMPARISONS[self.comparison]
        if pd.api.types.is_numeric_dtype(values) and values.dtype != bool:
            return np.asarray(compare(values, _number(self.value, self.column)), bool)
        if self.comparison not in ("==", "!="):
            hint = "compare it with == or !="
            raise TableError(f"column {self.column!r} holds text", where="holdout", hint=hint)
        with parsing(f"{self.value!r} cannot be compared", "--holdout", TableError):
            return np.asarray(compare(values.astype(str), self.value), bool)


def parse_holdout(text: str) -> Holdout:
    """A comparison as a person writes it.

    >>> parse_holdout("workers > 16")
    Holdout(column='workers', comparison='>', value='16')
    """
    condition = re.fullmatch(r"\s*(.+?)\s*(<=|>=|==|!=|<|>)\s*(.+?)\s*", text)
    if condition is None:
        hint = "write a column, one of < <= > >= == !=, and a value, such as 'workers>16'"
        raise TableError(f"{text!r} is not a comparison", where="holdout", hint=hint)
    column, comparison, value = condition.groups()
    return Holdout(column.strip("`"), comparison, value.strip("'\""))


def _number(text: str, column: str) -> float:
    try:
        return float(text)
    except ValueError:
        what = f"column {column!r} holds numbers and {text!r} is none"
        raise TableError(what, where="holdout") from None


@dataclass(frozen=True)
class NoiseFloor:
    """What no model can beat: the scatter of rows measured at the same configuration."""

    mape: float
    mae: float
    configurations: int


def noise_floor(frame: pd.DataFrame, y: Array) -> NoiseFloor | None:
    """The error of predicting each replicated row by the median of its fellows; None without replicates.

    >>> noise_floor(pd.DataFrame({"x": [1, 1, 2]}), np.array([1.0, 1.1, 5.0])).configurations
    1
    """
    codes = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()
    measured, expected, configurations = [], [], 0
    for code in np.flatnonzero(np.bincount(codes) > 1):
        rows = y[codes == code]
        configurations += 1
        for i, value in enumerate(rows):
            measured.append(value)
            expected.append(np.median(np.delete(rows, i)))
    if not measured:
        return None
    scatter = metrics(np.array(measured), np.array(expected))
    return NoiseFloor(scatter.mape, scatter.mae, configurations)


@dataclass(frozen=True)
class HeldOut:
    """One model's predictions of held-out rows, with their intervals; NaN where it had no answer."""

    predicted: Array
    low: Array
    high: Array
    fit_seconds: float
    reason: str = ""

    def score(self, y: Array, rows: Array | None = None) -> tuple[Metrics, float] | None:
        """The errors and the intervals' coverage on those rows; None if nothing was predicted."""
        chosen = np.isfinite(self.predicted) & (np.ones(len(y), bool) if rows is None else rows)
        if not chosen.any():
            return None
        covered = (y[chosen] >= self.low[chosen]) & (y[chosen] <= self.high[chosen])
        return metrics(y[chosen], self.predicted[chosen]), float(np.mean(covered))


def held_out(
    model: PerformanceModel, frame: pd.DataFrame, y: Array, splits: Sequence[tuple[Array, Array]],
    groups: Array | None = None,
) -> HeldOut:  # fmt: skip
    """Fit to the training rows of each split and predict its test rows; a failing model gives its reason."""
    predicted, low, high = (np.full(len(y), np.nan) for _ in range(3))
    seconds, reason = 0.0, ""
    for train, test in splits:
        started = time.perf_counter()
        try:
            fitted = clone(model).fit(
                frame.iloc[train], pd.Series(y[train], name="y"), None if groups is None else groups[train]
            )
            seconds += time.perf_counter() - started
            known = test[fitted._known(features(frame.iloc[test], fitted.roles_))]
            if len(known) < len(test):
                reason = f"{len(test) - len(known)} test rows hold a level that was not measured"
            if len(known):
                predicted[known] = fitted.predict(frame.iloc[known])
                low[known], high[known] = fitted.predict_interval(frame.iloc[known], COVERAGE_LEVEL)
        except SteplabError as error:
            reason = str(error)
        except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            # A model that breaks on unusual data is a result of the comparison, not its end.
            reason = f"it failed with {type(error).__name__}: {error}".partition("\n")[0]
    return HeldOut(predicted, low, high, seconds / max(len(splits), 1), reason)


def joined(parts: Sequence[HeldOut]) -> HeldOut:
    """The predictions of several splits, each of other rows, as those of one model; the last reason tells."""
    predicted, low, high = (np.full(len(parts[0].predicted), np.nan) for _ in range(3))
    for part in parts:
        known = np.isfinite(part.predicted)
        predicted[known], low[known], high[known] = part.predicted[known], part.low[known], part.high[known]
    reasons = [part.reason for part in parts if part.reason]
    seconds = float(np.mean([part.fit_seconds for part in parts]))
    return HeldOut(predicted, low, high, seconds, reasons[-1] if reasons else "")


def random_folds(rows: int, groups: Array | None, wanted: int) -> list[tuple[Array, Array]]:
    """Random folds, the same for every model; rows of one group stay together."""
    if wanted < 2:
        raise ModelError(f"{wanted} folds were asked for", hint="--folds is at least 2")
    if rows < 2 * wanted:
        raise NotEnoughData(f"{wanted} folds need at least {2 * wanted} rows and there are {rows}")
    return folds(rows, groups, wanted)


def range_split(frame: pd.DataFrame, holdouts: Sequence[Holdout]) -> list[tuple[Array, Array]]:
    """Rows that meet any of the conditions are held out; the others train."""
    test = np.any([holdout.rows(frame) for holdout in holdouts], axis=0)
    asked = ", ".join(holdout.text for holdout in holdouts)
    if not test.any() or test.all():
        what = f"{asked} holds out {'every row' if test.all() else 'no row'}"
        raise TableError(what, where="holdout", hint="choose a condition that splits the measured rows")
    return [(np.flatnonzero(~test), np.flatnonzero(test))]
