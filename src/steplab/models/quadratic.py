"""Quadratic regression of logarithms: squares and products of the numeric factors beside the linear terms.

Beyond the measured range the surface goes on as a plane, with the slope that it has at the border: a parabola's
own curvature is what explodes there. In logarithms such a plane is a power law.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np
import pandas as pd

from steplab.models.base import Array
from steplab.models.families.regression import Regression, Term
from steplab.models.formulas.formula import Node, column, number, op

OFFERED = {"auto": 30, "compare": 0, "report": 20}


class Quadratic(Regression):
    """ln t = β0 + Σ β_i·x_i + Σ β_ij·x_i·x_j + levels, with x the logarithms of the factors, by least squares.

    Where the target holds zeros or negative values, no logarithm is taken at all; where a column does, not of it.
    """

    failing_checks: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            "check_n_features_in_after_fitting", "check_estimators_dtypes", "check_dtype_object",
            "check_estimators_nan_inf", "check_regressors_no_decision_function", "check_regressors_int",
        ),
        "it has a term for each pair of columns, and the check gives no more rows than that",
    )  # fmt: skip

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        self.log_target_ = bool(np.min(y) > 0)
        super()._fit(frame, y, groups)

    def _terms(self) -> list[Term]:
        pairs = combinations_with_replacement(self.roles_.numeric, 2)
        return [
            Term(), *(Term((c,)) for c in self.roles_.numeric), *self._level_terms(),
            *(Term(pair) for pair in pairs),
        ]  # fmt: skip

    def _logarithmic(self, name: str) -> bool:
        return self.log_target_ and self.range_[name][0] > 0

    def _label(self, term: Term) -> str:
        names = [f"ln {name}" if self._logarithmic(name) else name for name in term.columns]
        return "·".join(names) or super()._label(term)

    def _regressor(self, term: Term) -> Node:
        if len(term.columns) == 1:
            return self._size(column(term.columns[0]), term.columns[0])
        if len(term.columns) == 2:
            return self._product(*term.columns)
        return super()._regressor(term)

    def _product(self, first: str, other: str) -> Node:
        """x·y within the measured range; beyond it the tangent plane x·y° + x°·y − x°·y° at the border x°, y°."""
        (x, x_held), (y, y_held) = ((self._size(column(c), c), self._size(self._held(c), c)) for c in (first, other))
        if first == other:
            return op("mul", x_held, op("sub", op("mul", number(2), x), x_held))
        mixed = op("add", op("mul", x, y_held), op("mul", x_held, y))
        return op("sub", mixed, op("mul", x_held, y_held))

    def _size(self, node: Node, name: str) -> Node:
        return op("log", node) if self._logarithmic(name) else node

    def _held(self, name: str) -> Node:
        """A column that stops at the border of its measured range."""
        low, high = self.range_[name]
        return op("min", op("max", column(name), number(low)), number(high))


MODEL = Quadratic
