"""Performance model normal form: powers and logarithms of the parameters, as in Extra-P."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError
from steplab.models.base import Array, Parameter, PerformanceModel, folds, numbers
from steplab.models.formulas.formula import Formula, level, number, op
from steplab.models.formulas.level_factors import Factors, level_factors, multiplier
from steplab.models.formulas.normal_form import Simple, Term, design, search, solve

OFFERED = {"auto": 50, "compare": 0, "report": 60}


class NormalForm(PerformanceModel):
    """t = (c_0 + Σ_k c_k · Π_j x_j^(i_kj) · log2(x_j)^(l_kj)) · levels: see `_normal_form` for the search."""

    column_units_matter: ClassVar[str] = "a logarithm of a value depends on the value's unit"
    needs_positive_columns: ClassVar[str] = "they have no powers and logarithms"
    needs_positive_target: ClassVar[str] = "its coefficients are not negative"
    array_options: ClassVar[Mapping[str, Any]] = {"intrinsic": "x0"}  # searching ten columns takes ten seconds
    failing_checks: ClassVar[Mapping[str, str]] = {
        "check_regressors_train": "in the rehearsal it reads one of ten columns, and not the one that tells",
        "check_positive_only_tag_during_fit": "in the rehearsal it reads one column, which holds no negative value",
    }
    # The search for terms finds chance among many columns (Extra-P: up to four).
    most_columns_in_auto: ClassVar[int | None] = 3

    terms_: list[Term]
    coef_: Array
    factors_: Factors

    def _rows_needed(self, frame: pd.DataFrame) -> int:
        return len(frame.columns) + 4

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        if np.min(y) < 0:
            raise ModelError("model 'pmnf' has no term for negative values of the target", hint="use another model")
        self.factors_ = level_factors(frame, y, self.roles_.numeric, self.levels_)
        plain, weight = self._plain(frame, y)
        self.terms_ = search(frame, self.roles_.numeric, plain, weight, groups)
        self.coef_ = solve(design(frame, self.terms_), plain, weight)

    def _plain(self, frame: pd.DataFrame, y: Array) -> tuple[Array, Array]:
        """The target without its levels' factors, and what makes its errors relative."""
        plain = y / multiplier(frame, self.factors_)
        return plain, 1 / np.maximum(plain, 0.1 * float(np.median(plain)) or 1.0)

    def _predict(self, frame: pd.DataFrame) -> Array:
        return np.asarray(design(frame, self.terms_) @ self.coef_ * multiplier(frame, self.factors_))

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        """New coefficients for the terms that were found, fold by fold."""
        plain, weight = self._plain(frame, y)
        A, predicted = design(frame, self.terms_), np.empty(len(y))
        for train, test in folds(len(y), groups, self.interval_folds):
            predicted[test] = A[test] @ solve(A[train], plain[train], weight[train])
        return np.asarray(predicted * multiplier(frame, self.factors_))

    def formula(self) -> Formula:
        """The normal form with its coefficients."""
        parts = [number(self.coef_[0])]
        for term, value in zip(self.terms_, self.coef_[1:], strict=True):
            if value > 0:
                parts.append(op("mul", number(value), *(simple.node() for simple in term)))
        total = parts[0] if len(parts) == 1 else op("add", *parts)
        levels = [level(name, values) for name, values in self.factors_.items()]
        return Formula(op("mul", total, *levels) if levels else total)

    def parameters(self) -> list[Parameter]:
        """The coefficients, named by their terms."""
        names = ["constant", *("·".join(Formula(s.node()).text for s in term) for term in self.terms_)]
        return [Parameter(name, f"c_{k}", float(self.coef_[k])) for k, name in enumerate(names)]

    def _state(self) -> dict[str, Any]:
        terms = [[[s.column, s.exponent, s.logarithm] for s in term] for term in self.terms_]
        return {"terms": terms, "coef": self.coef_.tolist(), "factors": self.factors_}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.terms_ = [tuple(Simple(str(c), float(i), int(j)) for c, i, j in term) for term in state["terms"]]
        if not {s.column for term in self.terms_ for s in term} <= set(self.roles_.numeric):
            raise ValueError("a term names a column that the model does not have")
        self.coef_ = numbers(state["coef"], len(self.terms_) + 1)
        self.factors_ = {
            name: {str(k): float(v) for k, v in state["factors"][name].items()} for name in state["factors"]
        }


MODEL = NormalForm
