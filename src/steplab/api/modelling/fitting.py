"""Fitting a performance model, and what a fitted one offers: a formula, parameters, predictions, a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steplab.api import display
from steplab.api.modelling.model_file import read_model, write_model
from steplab.api.modelling.network_terms import ProfileSource, network_terms
from steplab.api.modelling.predictions import At, Predictions, predict
from steplab.api.modelling.rows import Columns, RowSource, table_of, training_rows
from steplab.core.errors import ModelError, allowed
from steplab.core.units import quantity
from steplab.models import load_model_class
from steplab.models.base import Parameter, PerformanceModel
from steplab.models.columns.roles import features
from steplab.models.columns.training_rows import Chosen
from steplab.models.judging.misfit import Misfit, misfit
from steplab.models.judging.selection import Metrics, metrics

__all__ = ["FittedModel", "Parameter", "fit", "load_model"]
ROLES = ("intrinsic", "categorical", "extrinsic")


@dataclass(frozen=True, repr=False)
class FittedModel:
    """A fitted performance model. `estimator` is the model itself, which follows scikit-learn's interface."""

    estimator: PerformanceModel
    train: Metrics | None = None  # on the rows that it was fitted to; unknown of a saved model
    notes: tuple[str, ...] = ()  # what was assumed about the rows
    seconds: float | None = None  # that the fit took
    misfit: Misfit | None = None  # where the model's form does not fit the rows; unknown of a saved model

    @property
    def name(self) -> str:
        """The model's name, such as `generic`."""
        return self.estimator.name()

    @property
    def target(self) -> str:
        """The column that it predicts."""
        return self.estimator.target_

    @property
    def formula(self) -> str | None:
        """The model as a formula, where it has one."""
        formula = self.estimator.formula()
        return formula.text if formula else None

    @property
    def parameters(self) -> list[Parameter]:
        """The fitted numbers with their 95 % intervals, and whether the data determine them."""
        return self.estimator.parameters()

    @property
    def why(self) -> str:
        """Why this model was chosen among others, where it was."""
        told = getattr(self.estimator, "why", None)
        return "" if told is None else str(told())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the fit, in words."""
        return () if self.misfit is None else (self.misfit.sentence,)

    @property
    def accuracy(self) -> str:
        """Its errors on the rows that it was fitted to, in words; empty for a saved model."""
        train = self.train
        if train is None:
            return ""
        mae, rmse = (quantity(self.target, error) for error in (train.mae, train.rmse))
        return f"MAE {mae}, MAPE {train.mape:.2f} %, RMSE {rmse}, R² {train.r2:.4f}"

    @property
    def example(self) -> str:
        """A configuration inside of the measured range, as `predict` takes it."""
        numbers = [f"{column}={high:g}" for column, (_, high) in self.estimator.range_.items()]
        return ",".join([*numbers, *(f"{column}={levels[0]}" for column, levels in self.estimator.levels_.items())])

    def predict(
        self, at: At, level: float = 0.9, *, network: ProfileSource | None = None, study: RowSource | None = None
    ) -> Predictions:
        """Predict configurations: value, interval, inside or outside of the measured range.

        `at` is a configuration (`{"batch_size": 64, "workers": 4}` or `"batch_size=64,workers=4"`), several of them, a
        table with a row for each, or the path of such a table. A factor that never varied need not be given.
        A model that was fitted with a `network` is asked about another one by its profile and the `study` it came from:
        `predict("workers=8,rate=10gbit", network="faster.json", study="runs/box")`.
        """
        if (network is None) != (study is None):
            raise ModelError("a network's profile and the study of the model go together", hint="give both, or neither")
        terms = None if network is None or study is None else network_terms(table_of(study), network)
        return predict(self.estimator, at, level, terms)

    def save(self, path: Path | str) -> Path:
        """Write the model as JSON, for `load_model` and `steplab predict`."""
        write_model(self.estimator, Path(path))
        return Path(path)

    def document(self) -> dict[str, Any]:
        """What `steplab fit --json` prints, but for the file."""
        formula = self.estimator.formula()
        return {
            "model": self.name, "target": self.target, "rows": self.estimator.rows_,
            "formula": formula.text if formula else None,
            "latex": formula.latex if formula else None, "tree": formula.tree if formula else None,
            "parameters": [asdict(parameter) for parameter in self.parameters],
            "train": None if self.train is None else asdict(self.train),
            "roles": asdict(self.estimator.roles_), "notes": list(self.notes), "seconds": self.seconds,
            "why": self.why or None, "warnings": list(self.warnings),
        }  # fmt: skip

    def __repr__(self) -> str:
        told = f"{self.target} = {self.formula}" if self.formula else f"{self.target}, {self.estimator.rows_} rows"
        return f"<FittedModel {self.name}: {told}>"

    def _repr_html_(self) -> str:
        rows = [[p.name, f"{p.value:.4g}", _end(p.low), _end(p.high), "" if p.identified else "not determined"]
                for p in self.parameters]  # fmt: skip
        ranges = [(column, f"{low:g} to {high:g}") for column, (low, high) in self.estimator.range_.items()]
        levels = [(column, ", ".join(known)) for column, known in self.estimator.levels_.items()]
        return display.block(
            display.title(f"{self.name}, fitted to {self.estimator.rows_} rows"),
            display.code(f"{self.target} = {self.formula or '(no formula)'}"),
            display.sentence(self.why) if self.why else "",
            display.sentence(self.accuracy) if self.accuracy else "",
            *(display.sentence(f"Warning: {warning}.") for warning in self.warnings),
            display.table(("parameter", "value", "95 % low", "high", ""), rows),
            display.table(("factor", "measured"), [*ranges, *levels], left=2),
        )


def fit(
    source: RowSource,
    model: str = "auto",
    target: str | None = None,
    *,
    intrinsic: Columns = (),
    categorical: Columns = (),
    extrinsic: Columns = (),
    options: Mapping[str, object] | None = None,
    network: ProfileSource | None = None,
) -> FittedModel:
    """Fit a performance model.

    Args:
        source: A study (`steplab.open`), its folder, a CSV or Parquet file, or a pandas table.
        model: Which model, such as linear, generic or hybrid; auto takes physics unless another is clearly better.
        target: The column to model, by default `t_iter`.
        intrinsic: Columns of the network and the training.
        categorical: Columns that hold levels.
        extrinsic: Columns of the scale. Without any of the three, names and types of the columns decide.
        options: The model's own options, such as `{"penalty": "l2:0.001"}`.
        network: A profile (`steplab.network`) of the network that a study varies: its exchange, the column
            `exchange_s`, then stands for `rate`, and `hybrid` adds it to its communication.
    """
    chosen = training_rows(source, target, intrinsic, categorical, extrinsic, network)
    estimator = build(model, chosen, options or {})
    began = time.perf_counter()
    estimator.fit(chosen.X, chosen.y, chosen.groups)
    seconds = time.perf_counter() - began
    estimator.study_setting_ = chosen.setting
    y, predicted = chosen.y.to_numpy(float), estimator.predict(chosen.X)
    wrong = misfit(features(chosen.X, estimator.roles_), y, predicted)
    return FittedModel(estimator, metrics(y, predicted), chosen.notes, seconds, wrong)


def load_model(path: Path | str) -> FittedModel:
    """Read a saved model. Files are data: nothing in it is run.

    What is no model, or a damaged one, raises a `ModelError`.
    """
    return FittedModel(read_model(Path(path)))


TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def build(name: str, chosen: Chosen, options: Mapping[str, object]) -> PerformanceModel:
    """A model of that name for these columns, with its options."""
    roles = chosen.roles
    estimator = load_model_class(name)(roles.intrinsic, roles.categorical, roles.extrinsic)
    own = {key: value for key, value in estimator.get_params(deep=False).items() if key not in ROLES}
    for key, value in options.items():
        if key not in own:
            raise ModelError(f"model {name!r} has no option {key!r}", hint=allowed(own) if own else "it has none")
        estimator.set_params(**{key: _typed(value, own[key], key)})
    return estimator


def _typed(value: object, default: object, key: str) -> object:
    """An option's value; a text becomes what the default is."""
    if not isinstance(value, str):
        return value
    if isinstance(default, bool):
        if value.lower() not in TRUTHS:
            raise ModelError(f"option {key!r} is {value!r}", hint="it is true or false")
        return TRUTHS[value.lower()]
    if isinstance(default, int | float):
        try:
            return type(default)(value)
        except (ValueError, OverflowError):
            raise ModelError(f"option {key!r} is {value!r}", hint="it is a number") from None
    if isinstance(default, tuple):
        return tuple(part.strip() for part in value.split(","))
    return value


def _end(value: float | None) -> str | None:
    return None if value is None else f"{value:.4g}"
