"""Least squares on terms of columns: what the regression models share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from steplab.core.errors import NotEnoughData
from steplab.models.base import Array, Parameter, PerformanceModel, numbers
from steplab.models.formulas.formula import Formula, Node, column, level, number, op
from steplab.models.solvers.least_squares import independent, least_squares


@dataclass(frozen=True)
class Term:
    """A regressor: a product of columns (of none: the constant), or a level of a categorical column."""

    columns: tuple[str, ...] = ()
    level: tuple[str, str] | None = None


class Regression(PerformanceModel):
    """Least squares on terms that a subclass names; regressors the data cannot tell apart are left out.

    With `log_target_` the sum is the logarithm of the target.
    """

    log_target_: bool = False
    terms_: list[Term]
    coef_: Array
    parameters_: list[Parameter]

    def _terms(self) -> list[Term]:
        """The regressors that the model would like, the constant first."""
        raise NotImplementedError

    def _regressor(self, term: Term) -> Node:
        """What a term's coefficient multiplies."""
        if term.level:
            name, own = term.level
            return level(name, {other: float(other == own) for other in self.levels_[name]})
        nodes = [column(name) for name in term.columns]
        return op("mul", *nodes) if nodes else number(1)

    def _label(self, term: Term) -> str:
        """How a term is called in tables."""
        return "=".join(term.level) if term.level else "·".join(term.columns) or "constant"

    def _design(self, terms: Sequence[Term], frame: pd.DataFrame) -> Array:
        return np.column_stack([Formula(self._regressor(term)).evaluate(frame) for term in terms])

    def _level_terms(self) -> list[Term]:
        return [Term(level=(c, name)) for c, known in self.levels_.items() for name in known[1:]]

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        wanted = self._terms()
        matrix = self._design(wanted, frame)
        kept = independent(matrix)
        if len(y) < len(kept) + 1:
            what = f"model {self.name()!r} needs at least {len(kept) + 1} rows and got {len(y)}"
            raise NotEnoughData(what, hint="measure more configurations, or model fewer columns")
        self.terms_ = [wanted[i] for i in kept]
        self.coef_, half, told = least_squares(matrix[:, kept], self._summed(y), groups)
        self.parameters_ = self._described(wanted, half, told)

    def _described(self, wanted: list[Term], half: Array, told: bool) -> list[Parameter]:
        fitted = {term: (float(b), float(h)) for term, b, h in zip(self.terms_, self.coef_, half, strict=True)}
        parameters = []
        for i, term in enumerate(wanted):
            value, width = fitted.get(term, (0.0, np.nan))
            known = told and bool(np.isfinite(width))
            low, high = (value - width, value + width) if known else (None, None)
            parameters.append(Parameter(self._label(term), f"β{i}", value, low, high, known))
        return parameters

    def _summed(self, y: Array) -> Array:
        """The target as the sum gives it."""
        return np.log(y) if self.log_target_ else y

    def _time(self, total: Array) -> Array:
        """The inverse of `_summed`."""
        with np.errstate(over="ignore"):
            return np.exp(total) if self.log_target_ else total

    def _predict(self, frame: pd.DataFrame) -> Array:
        return self._time(self._design(self.terms_, frame) @ self.coef_)

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        if groups is not None:
            return super()._held_out(frame, y, groups)
        # Exact for least squares: leaving a row out divides its residual by 1 − leverage.
        matrix, total = self._design(self.terms_, frame), self._summed(y)
        leverage = np.clip((np.linalg.qr(matrix)[0] ** 2).sum(axis=1), 0, 0.999)
        return self._time(total - (total - matrix @ self.coef_) / (1 - leverage))

    def formula(self) -> Formula:
        """The fitted sum."""
        parts = [
            op("mul", number(float(b)), self._regressor(term)) if term.columns else number(float(b))
            for term, b in zip(self.terms_, self.coef_, strict=True) if not term.level
        ]  # fmt: skip
        for c, known in self.levels_.items():
            own = {t.level[1]: float(b) for t, b in zip(self.terms_, self.coef_, strict=True)
                   if t.level and t.level[0] == c}  # fmt: skip
            if own:
                parts.append(level(c, {name: own.get(name, 0.0) for name in known}))
        total = op("add", *parts) if len(parts) > 1 else parts[0]
        return Formula(op("exp", total) if self.log_target_ else total)

    def parameters(self) -> list[Parameter]:
        """The coefficients with 95 % intervals; those that the data cannot tell apart are marked."""
        return self.parameters_

    def _state(self) -> dict[str, Any]:
        terms = [{"columns": list(t.columns), "level": list(t.level) if t.level else None} for t in self.terms_]
        return {
            "log_target": self.log_target_,
            "terms": terms,
            "coef": self.coef_.tolist(),
            "parameters": [asdict(p) for p in self.parameters_],
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.log_target_ = bool(state["log_target"])
        self.terms_ = [self._restored(term) for term in state["terms"]]
        self.coef_ = numbers(state["coef"], len(self.terms_))
        self.parameters_ = [Parameter(**parameter) for parameter in state["parameters"]]

    def _restored(self, document: Mapping[str, Any]) -> Term:
        columns, chosen = tuple(document["columns"]), document["level"]
        if not set(columns) <= set(self.roles_.numeric):
            raise ValueError("a term reads an unknown column")
        if chosen is not None and (len(chosen) != 2 or chosen[1] not in self.levels_.get(chosen[0], ())):
            raise ValueError("a term reads an unknown level")
        return Term(columns, (chosen[0], chosen[1]) if chosen else None)
