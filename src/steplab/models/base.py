"""What every performance model is: fit, predict, an interval, a range, a formula, a JSON document.

A model is one file that subclasses `PerformanceModel` and fills in `_fit`, `_predict`, `_state`, `_restore`.
The base checks the input, puts the rows in an order of their own (so that row order never matters), remembers
the measured range, and calibrates the prediction intervals on held-out rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin, clone

from steplab.core.blas import one_thread
from steplab.core.errors import ModelError, NotEnoughData, allowed
from steplab.core.parsing import parsing
from steplab.models import model_name, provider
from steplab.models.columns.input_table import array_names, asked_table, fitting_table, group_codes, target_vector
from steplab.models.columns.roles import Names, Roles, canonical_order, features, names, roles_for
from steplab.models.columns.setting import Setting, saved_setting
from steplab.models.formulas.formula import Formula
from steplab.models.held_out.calibration import Interval, calibrated, interval_from
from steplab.models.held_out.extrapolation import (
    NEXT_TO_NOTHING,
    Border,
    Rates,
    Rows,
    distance,
    rates,
    saved_rates,
    thinned,
)
from steplab.models.held_out.folds import folds
from steplab.models.held_out.intervals import excess
from steplab.models.parameter import Parameter
from steplab.models.refusals import NotFitted, Possible, expect_possible
from steplab.models.saved_parts import bounds, numbers, require_different, require_finite, strings

__all__ = ["Array", "Inside", "Parameter", "PerformanceModel", "folds", "numbers"]

FORMAT = "steplab-model"
# 1: first version. Optional since: `provider` (the package of a model from outside), `features` (the number of
# columns of an array), `growth` (rates at which intervals widen outside; without it by a fixed rule), `setting` (what
# the study held fixed).
VERSION = 1
MOST_COLUMNS = 100_000  # of a saved model
ROLE_OPTIONS = ("intrinsic", "categorical", "extrinsic")

Array = np.ndarray


@dataclass(frozen=True)
class Inside:
    """Whether each row lies inside the measured range, and which factors leave it."""

    rows: Array
    outside: tuple[tuple[str, ...], ...]


class PerformanceModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A performance model: predicts a time from a configuration.

    `intrinsic`, `categorical` and `extrinsic` name the columns, a text one column; with none of them, they are
    inferred. A subclass with options of its own repeats these three first in its `__init__` and only stores them there.
    X is a table (pandas, Polars, Arrow), or whatever NumPy makes an array of, with columns x0, x1 and so on.
    """

    # Exceptions to the contract are declared with their reason, which the contract test prints.
    column_units_matter: ClassVar[str] = ""
    ignores_columns: ClassVar[str] = ""
    score_is_luck: ClassVar[str] = ""
    needs_positive_columns: ClassVar[str] = ""  # the base refuses negative values
    possible_options: ClassVar[Possible] = {}  # the base refuses others
    needs_positive_target: ClassVar[str] = ""  # the model refuses others, or predicts them badly
    without_formula: ClassVar[str] = ""
    # Of scikit-learn's `check_estimator`: the checks that fail, each with its reason.
    failing_checks: ClassVar[Mapping[str, str]] = {}
    # For those checks: options that name an array's columns (x0, x1 …) or save time, and class attributes that do.
    array_options: ClassVar[Mapping[str, Any]] = {}
    array_settings: ClassVar[Mapping[str, Any]] = {}
    # Among more numeric columns than this, `auto` leaves the model out unless it is named.
    most_columns_in_auto: ClassVar[int | None] = None
    interval_folds: ClassVar[int] = 5
    # Options with which a slow model is quick enough for a rehearsal (the contract tests use them).
    quick_options: ClassVar[Mapping[str, Any]] = {}
    # Columns that help fitting where a table has them, and that a prediction does without (NaN: missing).
    fit_columns: ClassVar[tuple[str, ...]] = ()

    roles_: Roles
    range_: dict[str, tuple[float, float]]
    levels_: dict[str, tuple[str, ...]]
    growth_: Rates | None  # None: a model saved before rates were learned
    _seen: Rows  # what the fit has seen, for what is learned of it later
    target_: str
    rows_: int
    study_setting_: Setting | None = None  # what a study held fixed; unknown of a table
    order_known_: bool  # whether an array's columns can be told by their order

    def __init__(self, intrinsic: Names = (), categorical: Names = (), extrinsic: Names = ()) -> None:
        self.intrinsic, self.categorical, self.extrinsic = intrinsic, categorical, extrinsic

    # What a subclass fills in: frames hold exactly the roles' columns, floats and text, in canonical order.

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        """Learn from checked rows; store fitted attributes with a trailing underscore."""
        raise NotImplementedError

    def _predict(self, frame: pd.DataFrame) -> Array:
        """The prediction for each row."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        """What `_restore` needs, as plain JSON data."""
        raise NotImplementedError

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Set the fitted attributes from `_state`; a ValueError or KeyError means a damaged document."""
        raise NotImplementedError

    def _rows_needed(self, frame: pd.DataFrame) -> int:
        """The fewest rows from which this model can be fitted; never below 3."""
        return 3

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        """Each row predicted by a model that has not seen it (NaN: none); override for a shortcut."""
        predicted = np.full(len(y), np.nan)
        for train, test in folds(len(y), groups, self.interval_folds):
            try:
                other = self._fitted_copy(frame.iloc[train], y[train], None if groups is None else groups[train])
            except NotEnoughData:
                continue
            known = other._known(frame.iloc[test])
            if known.any():
                predicted[test[known]] = other._predict(frame.iloc[test[known]].reset_index(drop=True))
        return predicted

    def _spread(self, frame: pd.DataFrame) -> Array:
        """The factor by which the interval widens: 1 inside of the measured range, NaN where the data cannot tell."""
        wider = np.ones(len(frame))
        beyond = {c: distance(frame[c].to_numpy(float), low, high) for c, (low, high) in self.range_.items()}
        if not any((far > NEXT_TO_NOTHING).any() for far in beyond.values()):
            return wider  # how errors grow outside is learned only for rows that are there
        growth = self.growth()
        for column, (low, high) in self.range_.items():
            if growth is None:
                wider += 2 * excess(frame[column].to_numpy(float), low, high)
                continue
            rate, far = growth.get(column), beyond[column]
            wider += np.where(far > NEXT_TO_NOTHING, np.nan, 0.0) if rate is None else rate * far
        return wider

    def _border_copy(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> PerformanceModel:
        """The same model fitted to the rows up to a border, quickly; override for a shortcut."""
        other = clone(self).set_params(**self.quick_options)
        other.roles_, other.target_ = self.roles_, self.target_
        other._learn(frame.reset_index(drop=True), y, groups)
        return other  # type: ignore[no-any-return]

    def _rates(self, frame: pd.DataFrame, y: Array, groups: Array | None, interval: Interval) -> Rates:
        """How fast the error grows beyond each numeric factor's range, learned by extrapolating inside."""

        def scored(border: Border) -> Array | None:
            train, test = border.train, frame.iloc[border.test].reset_index(drop=True)
            try:
                other = self._border_copy(frame.iloc[train], y[train], None if groups is None else groups[train])
            except (ModelError, ArithmeticError, ValueError, np.linalg.LinAlgError):
                return None
            scores, known = np.full(len(test), np.nan), other._known(test)
            if known.any():
                predicted = other._predict(test[known].reset_index(drop=True))
                scores[known] = interval.scores_of(predicted, y[border.test[known]])
            return scores

        columns = [*self.roles_.extrinsic, *self.roles_.intrinsic]
        with one_thread(), np.errstate(all="ignore"):
            fewest = max(3, self._rows_needed(frame))
            return rates(frame, columns, scored, interval.quantile(0.9), interval.typical_half, fewest)

    def formula(self) -> Formula | None:
        """The model as a formula, where it has one."""
        return None

    def parameters(self) -> list[Parameter]:
        """The fitted parameters, where a person can read them."""
        return []

    # The public side, the same for all.

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to the rows of a table; rows of one group (replicates, epochs of a run) are not independent."""
        for part in (
            "interval_",
            "growth_",
            "_seen",
            "study_setting_",
        ):  # a fit that fails leaves no half of the one before
            self.__dict__.pop(part, None)
        frame, target, group = self._checked(X, y, groups)
        with one_thread():
            self._learn(frame, target, group)
        self._seen = frame, target, group
        return self

    @cached_property
    def interval_(self) -> Interval:
        """What prediction intervals are made of, from rows that the fit has not seen.

        It is calibrated when it is first asked for, by an interval or by saving: a value alone does not need it.
        """
        self._require_fitted()
        frame, target, group = self._seen
        with one_thread():
            predicted = self._held_out(frame, target, group)
        # A model so starved that no fold could be fitted still owes an honest width: the target's own.
        if not np.isfinite(predicted).any():
            predicted = np.full(len(target), float(np.mean(target)))
        # From here on only the rates outside are still to be learned, which takes fewer rows.
        self._seen = thinned(frame, target, group)
        return calibrated(predicted, target, group)

    def predict(self, X: Any) -> Array:
        """The predicted value of each row."""
        frame = self._features(X)
        known = self._known(frame)
        if not known.all():
            self._refuse_level(frame[~known])
        return np.asarray(self._predict(frame), float)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """The lower and upper bound between which a new measurement lies with that probability.

        NaN where a factor leaves its range and the data cannot tell how errors grow there (one or two values).
        """
        predicted = self.predict(X)
        return self.interval_.bounds(predicted, level, self._spread(self._features(X)))

    def growth(self) -> Rates | None:
        """The rate at which the interval widens outside, by factor; None for one that the data cannot tell.

        It is learned when it is first asked for, by a prediction outside or by saving: fitting alone does not need it.
        """
        self._require_fitted()
        if not hasattr(self, "growth_"):
            interval = self.interval_  # before the rows, which it thins
            self.growth_ = self._rates(*self._seen, interval)
        return self.growth_

    def inside(self, X: Any) -> Inside:
        """Whether each row lies inside the measured range, factor by factor."""
        frame = self._features(X)
        out = {c: ~frame[c].isin(levels).to_numpy() for c, levels in self.levels_.items()}
        for column, (low, high) in self.range_.items():
            margin = 1e-9 * max(abs(low), abs(high))
            values = frame[column].to_numpy(float)
            out[column] = (values < low - margin) | (values > high + margin)
        names = tuple(tuple(c for c in out if out[c][i]) for i in range(len(frame)))
        return Inside(np.array([not row for row in names], bool), names)

    def to_document(self) -> dict[str, Any]:
        """The fitted model as plain JSON data: no pickle, no code."""
        self._require_fitted()
        options = {k: _plain_option(k, v) for k, v in self.get_params(deep=False).items()}
        optional: dict[str, Any] = {} if hasattr(self, "feature_names_in_") else {"features": self.n_features_in_}
        package = provider(self.name())
        if package is not None:
            optional["provider"] = package
        if self.study_setting_ is not None:
            optional["setting"] = dict(self.study_setting_)
        return {
            "format": FORMAT, "version": VERSION, "model": self.name(), "options": options,
            "target": self.target_, "rows": self.rows_,
            "roles": {role: list(columns) for role, columns in asdict(self.roles_).items()},
            "range": {c: list(bounds) for c, bounds in self.range_.items()},
            "levels": {c: list(levels) for c, levels in self.levels_.items()},
            "interval": self.interval_.to_document(),
            "state": self._state(),
        } | optional | ({} if self.growth() is None else {"growth": self.growth()})  # fmt: skip

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of `to_document`; anything damaged is a ModelError."""
        if document.get("format") != FORMAT or document.get("version") != VERSION:
            what = f"format {document.get('format')!r} version {document.get('version')!r} cannot be read"
            raise ModelError(what, hint=f"this steplab reads {FORMAT!r} version {VERSION}")
        with parsing("the saved model is damaged", "", ModelError):
            return cls._from_checked(document)

    @classmethod
    def name(cls) -> str:
        """The model's name: that of its file, or of the entry point that offers it."""
        return model_name(cls.__module__, cls.__qualname__)

    # How the public side works.

    @classmethod
    def _from_checked(cls, document: Mapping[str, Any]) -> Self:
        model = cls(**_options(cls, document["options"]))
        roles = document["roles"]
        model.roles_ = Roles(*(tuple(strings(roles[role])) for role in ROLE_OPTIONS))
        require_different(model.roles_.columns)
        model._remember_columns(document.get("features"))
        model.range_ = {c: bounds(document["range"][c]) for c in model.roles_.numeric}
        model.levels_ = {c: tuple(strings(document["levels"][c])) for c in model.roles_.categorical}
        model.interval_ = interval_from(document["interval"])
        model.growth_ = saved_rates(document.get("growth"), model.roles_.numeric)
        model.target_, model.rows_ = str(document["target"]), int(document["rows"])
        model.study_setting_ = saved_setting(document.get("setting"))
        require_finite(document["state"])
        model._restore(document["state"])
        return model

    def _remember_columns(self, of_array: object) -> None:
        """The columns of a loaded model: those of an array, or those that it reads of a table, in no known order."""
        self.order_known_ = of_array is not None
        if of_array is None:
            self.feature_names_in_ = np.array(self.roles_.columns, dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
            return
        if (
            type(of_array) is not int
            or not 0 < of_array <= MOST_COLUMNS
            or not set(self.roles_.columns) <= set(array_names(of_array))
        ):
            raise ValueError("the number of columns is damaged")
        self.n_features_in_ = of_array

    def _checked(self, X: Any, y: Any, groups: Any) -> tuple[pd.DataFrame, Array, Array | None]:
        """Rows in canonical order, with what is remembered of them set."""
        table = fitting_table(self, X, with_text=bool(names(self.categorical)))
        target, self.order_known_ = target_vector(y, len(table)), True
        self.roles_ = roles_for(table, self.intrinsic, self.categorical, self.extrinsic)
        frame = features(table, self.roles_)
        for c in self.fit_columns:
            if c in table.columns and c not in self.roles_.columns:
                frame[c] = pd.to_numeric(table[c], errors="coerce").to_numpy(float)
        self.target_ = str(getattr(y, "name", None) or "t")
        order = canonical_order(frame, target)
        return frame.iloc[order].reset_index(drop=True), target[order], group_codes(groups, order)

    def _learn(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        expect_possible(self, self.possible_options)
        needed = max(3, self._rows_needed(frame))
        if len(y) < needed:
            what = f"model {self.name()!r} needs at least {needed} rows and got {len(y)} (n_samples = {len(y)})"
            raise NotEnoughData(what, hint="measure more configurations, or model fewer columns")
        self.rows_ = len(y)
        numeric = {c: frame[c].to_numpy(float) for c in self.roles_.numeric}
        self.range_ = {c: (float(values.min()), float(values.max())) for c, values in numeric.items()}
        if self.needs_positive_columns:
            self._require_positive_columns()
        self.levels_ = {c: tuple(sorted(frame[c].unique())) for c in self.roles_.categorical}
        self._fit(frame, y, groups)

    def _require_positive_columns(self) -> None:
        for column, (low, _) in self.range_.items():
            if low < 0:
                what = f"Negative values in data: {self.needs_positive_columns}"
                raise ModelError(what, where=f"column {column!r}", hint="make it categorical, or shift it above 0")

    def _fitted_copy(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Self:
        """The same model fitted to other rows, without intervals."""
        other = clone(self)
        other.roles_, other.target_ = self.roles_, self.target_
        other._learn(frame.reset_index(drop=True), y, groups)
        return other  # type: ignore[no-any-return]

    def _features(self, X: Any) -> pd.DataFrame:
        self._require_fitted()
        return features(asked_table(self, X, with_text=bool(self.roles_.categorical)), self.roles_)

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFitted(f"model {self.name()!r} has not been fitted")

    def __sklearn_is_fitted__(self) -> bool:
        return "interval_" in self.__dict__ or "_seen" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = bool(self.needs_positive_columns)
        tags.target_tags.positive_only = bool(self.needs_positive_target)
        tags.regressor_tags.poor_score = bool(self.ignores_columns or self.score_is_luck)
        return tags

    def _known(self, frame: pd.DataFrame) -> Array:
        """Which rows hold only levels that were measured."""
        known = np.ones(len(frame), bool)
        for column, levels in self.levels_.items():
            known &= frame[column].isin(levels).to_numpy()
        return known

    def _refuse_level(self, unknown: pd.DataFrame) -> None:
        for column, levels in self.levels_.items():
            value = unknown[column].iloc[0]
            if value not in levels:
                raise ModelError(f"{column} = {value!r} was not measured", hint=allowed(levels))


def _options(cls: type[PerformanceModel], options: object) -> dict[str, Any]:
    """Constructor options of a saved model; roles become tuples, unknown options are refused."""
    if not isinstance(options, dict):
        raise ValueError("the options are not an object")
    unknown = set(options) - set(cls._get_param_names())
    if unknown:
        raise ModelError(f"model {cls.name()!r} has no option {min(map(str, unknown))!r}")
    return {k: tuple(strings(v)) if k in ROLE_OPTIONS else v for k, v in options.items()}


def _plain_option(name: str, value: Any) -> Any:
    """A constructor option as JSON data."""
    if name in ROLE_OPTIONS:
        return list(names(value))
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value
