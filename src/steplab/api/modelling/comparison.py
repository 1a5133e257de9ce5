"""Comparing performance models on rows that they have not seen."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from steplab.api import display
from steplab.api.modelling.judging import Judge, Progress, judge_all
from steplab.api.modelling.rows import Columns, RowSource, listed, training_rows
from steplab.core.units import quantity
from steplab.models import load_model_class, offered
from steplab.models.base import PerformanceModel
from steplab.models.columns.training_rows import Chosen
from steplab.models.families.tuned import TunedModel
from steplab.models.families.user_formula import UserFormula
from steplab.models.formulas.parser import parse_formula
from steplab.models.judging.selection import (
    HeldOut,
    Holdout,
    NoiseFloor,
    noise_floor,
    parse_holdout,
    random_folds,
    range_split,
)
from steplab.store.source import clean_name

FEW = 4  # models that are judged before a further process has started
MOST_PROCESSES = 4  # more wait for each other's imports
COLUMNS = ("model", "MAE", "MAPE %", "RMSE", "R²", "covered %", "fit s")
Named = tuple[str, PerformanceModel]


@dataclass(frozen=True)
class ComparedModel:
    """How well a model predicts held-out rows; None where it could not. MAPE is per cent of the measured value."""

    model: str
    mae: float | None
    mape: float | None
    rmse: float | None
    r2: float | None
    coverage: float | None  # the share of rows within their 90 % intervals
    predicted_rows: int
    fit_seconds: float
    reason: str | None  # why it did not predict all
    extrapolates: bool = False  # whether it goes on beyond the measured range; a forest is flat there


@dataclass(frozen=True)
class HoldoutScores:
    """The models on one of several held-out ranges."""

    holdout: str
    test_rows: int
    rows: tuple[ComparedModel, ...]


@dataclass(frozen=True, repr=False)
class ModelComparison:
    """Models on the same held-out rows, the least error first."""

    target: str
    rows: tuple[ComparedModel, ...]
    train_rows: int
    test_rows: int
    holdout: tuple[str, ...]
    holdouts: tuple[HoldoutScores, ...]  # each range by itself, if there are several
    noise: NoiseFloor | None  # how far rows of one configuration lie apart
    folds: int | None  # random folds, without held-out ranges
    grouped: bool  # whether replicates stayed together
    notes: tuple[str, ...]

    @property
    def best(self) -> str | None:
        """The model with the least error, if any could predict."""
        return next((row.model for row in self.rows if row.mape is not None and np.isfinite(row.mape)), None)

    @property
    def best_outside(self) -> str | None:
        """Of the models that can extrapolate, the one with the least error, if any could predict.

        Trees and support vectors are flat beyond the measured range, or know nothing there.
        """
        able = [row for row in self.rows if row.extrapolates and row.mape is not None and np.isfinite(row.mape)]
        return able[0].model if able else None

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each model."""
        return pd.DataFrame([asdict(row) for row in self.rows])

    @property
    def judged_on(self) -> str:
        """Which rows were held out, in words."""
        together = ", replicates together" if self.grouped else ""
        return ", ".join(self.holdout) or f"{self.folds} random folds{together}"

    def document(self) -> dict[str, Any]:
        """What `steplab compare --json` prints."""
        return {name: value for name, value in asdict(self).items() if name != "notes"}

    def __repr__(self) -> str:
        return f"<ModelComparison of {len(self.rows)} models of {self.target}: best {self.best}>"

    def _repr_html_(self) -> str:
        return display.block(
            display.title(f"{self.target}: {self.test_rows} held-out rows ({self.judged_on})"),
            display.table(COLUMNS, [cells(row, self.target) for row in self.rows]),
            *(display.sentence(f"{row.model}: {row.reason}") for row in self.rows if row.reason),
        )


def cells(row: ComparedModel, target: str) -> list[str | None]:
    """A model's row of a table of `COLUMNS`."""
    covered = None if row.coverage is None else 100 * row.coverage
    mae, rmse = (None if error is None else quantity(target, error) for error in (row.mae, row.rmse))
    mape, r2, share = (
        None if value is None else format(value, form)
        for value, form in ((row.mape, ".1f"), (row.r2, ".3f"), (covered, ".0f"))
    )
    return [row.model, mae, mape, rmse, r2, share, f"{row.fit_seconds:.2f}"]


def compare(
    source: RowSource,
    models: Columns = (),
    target: str | None = None,
    *,
    intrinsic: Columns = (),
    categorical: Columns = (),
    extrinsic: Columns = (),
    folds: int = 5,
    holdout: Columns = (),
    formulas: Columns = (),
    notes: Callable[[tuple[str, ...]], None] = lambda notes: None,
    progress: Progress = lambda model, done: None,
) -> ModelComparison:
    """Compare performance models on the same held-out rows: random folds, or the ranges that `holdout` names.

    Random folds tell how good a model is between measured points; replicates of a configuration stay together. A
    holdout such as `workers>16` tells how a model extrapolates: its rows are predicted from all others.

    Args:
        source: A study (`steplab.open`), its folder, a CSV or Parquet file, or a pandas table.
        models: Which models, by default all but slow ones.
        target: The column to model, by default `t_iter`.
        intrinsic: Columns of the network and the training.
        categorical: Columns that hold levels.
        extrinsic: Columns of the scale.
        folds: How many random folds, without `holdout`.
        holdout: Rows to predict from all others, such as `workers>16`.
        formulas: Formulas of your own; names in them that are no columns are fitted.
        notes: Hears what was assumed about the rows, before anything is fitted.
        progress: Hears the name of the model that is being fitted, and which share of the work is done.
    """
    chosen = training_rows(source, target, intrinsic, categorical, extrinsic)
    asked = [_holdout(text) for text in listed(holdout)]
    candidates = _models(listed(models), listed(formulas), chosen)
    y = chosen.y.to_numpy(float)
    splits = range_split(chosen.X, asked) if asked else random_folds(len(y), chosen.groups, folds)
    notes(chosen.notes)
    judge = Judge(chosen.X, y, tuple(splits), chosen.groups)
    results = judge_all(candidates, judge, _processes(candidates), progress)
    ranges = [(condition.text, condition.rows(chosen.X)) for condition in asked] if len(asked) > 1 else []
    return ModelComparison(
        target=str(chosen.y.name),
        rows=_ranked(results, y),
        train_rows=min(len(train) for train, _ in splits),
        test_rows=sum(len(test) for _, test in splits),
        holdout=tuple(condition.text for condition in asked),
        holdouts=tuple(HoldoutScores(text, int(rows.sum()), _ranked(results, y, rows)) for text, rows in ranges),
        noise=noise_floor(chosen.X[list(chosen.roles.columns)], y),
        folds=None if asked else len(splits),
        grouped=chosen.groups is not None,
        notes=chosen.notes,
    )


def _processes(candidates: Sequence[Named]) -> int:
    """How many processes judge: one for a handful of models, which are judged before another has started."""
    return min(_cores(), MOST_PROCESSES) if len(candidates) > FEW else 1


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _holdout(text: str) -> Holdout:
    parsed = parse_holdout(text)
    return replace(parsed, column=clean_name(parsed.column))


def _models(names: Sequence[str], formulas: Sequence[str], chosen: Chosen) -> list[Named]:
    """The models to compare; a formula is read now, so that a mistake in it is told at once."""
    wanted = names or offered("compare")
    roles = (chosen.roles.intrinsic, chosen.roles.categorical, chosen.roles.extrinsic)
    models: list[Named] = [(name, load_model_class(name)(*roles)) for name in wanted]
    for at, text in enumerate(formulas):
        parse_formula(text, chosen.roles.numeric)
        models.append((f"formula{at + 1 if at else ''}", UserFormula(*roles, expression=text)))
    return models


def _ranked(
    results: Sequence[tuple[str, HeldOut]], y: np.ndarray, rows: np.ndarray | None = None
) -> tuple[ComparedModel, ...]:
    """The least error first, but a model that answered for fewer rows never before one that answered for more."""
    scored = [replace(_scored(name, result, y, rows), extrapolates=extrapolates(name)) for name, result in results]
    return tuple(sorted(scored, key=lambda row: (-row.predicted_rows, row.mape or row.mae or 0.0)))


def extrapolates(name: str) -> bool:
    """Whether a model goes on beyond the measured range: those that learn from points alone do not."""
    return name.startswith("formula") or not issubclass(load_model_class(name), TunedModel)


def _scored(name: str, result: HeldOut, y: np.ndarray, rows: np.ndarray | None) -> ComparedModel:
    scored = result.score(y, rows)
    answered = np.isfinite(result.predicted) if rows is None else np.isfinite(result.predicted) & rows
    about = (int(answered.sum()), result.fit_seconds, result.reason or None)
    if scored is None:
        return ComparedModel(name, None, None, None, None, None, *about)
    errors, coverage = scored
    return ComparedModel(name, errors.mae, errors.mape, errors.rmse, errors.r2, coverage, *about)
