"""A formula that a person wrote, with its unknown coefficients fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import OptimizeResult, least_squares

from steplab.core.errors import ModelError
from steplab.models.base import Array, Parameter, PerformanceModel, folds
from steplab.models.columns.roles import Names
from steplab.models.formulas.formula import Formula
from steplab.models.formulas.parser import coefficients, filled, parse_formula, with_columns

STARTS = 8
STEPS_FIRST, STEPS, FINALISTS = 20, 100, 3  # all starts take a few steps, the best of them go on
WORK = 1e9  # operations on a row that one descent may take: a few seconds


class UserFormula(PerformanceModel):
    """The user's own formula; coefficients by least squares on relative errors, from several starts."""

    tree_: dict[str, Any]

    def __init__(
        self, intrinsic: Names = (), categorical: Names = (), extrinsic: Names = (),
        expression: str = "a0",
    ) -> None:  # fmt: skip
        super().__init__(intrinsic, categorical, extrinsic)
        self.expression = expression

    @classmethod
    def name(cls) -> str:
        """The name of its row in a comparison."""
        return "formula"

    def _tree(self) -> dict[str, Any]:
        return parse_formula(self.expression, self.roles_.numeric)

    def _rows_needed(self, frame: pd.DataFrame) -> int:
        return len(coefficients(self._tree())) + 1

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        tree = self._tree()
        search = Search.of(tree, frame, y)
        self.values_ = search.best(starts_for(tree, y)) if search.names else {}
        self.tree_ = filled(tree, self.values_)

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        """Refits from the full solution: quick, and still unseen."""
        tree, predicted = self._tree(), np.empty(len(y))
        start = np.array(list(self.values_.values()))
        for train, test in folds(len(y), groups, self.interval_folds):
            search = Search.of(tree, frame.iloc[train], y[train])
            coefficients = search.best([start]) if search.names else {}
            predicted[test] = Formula(filled(tree, coefficients)).evaluate(frame.iloc[test])
        return predicted

    def _predict(self, frame: pd.DataFrame) -> Array:
        return Formula(self.tree_).evaluate(frame)

    def formula(self) -> Formula:
        """The formula with its fitted numbers."""
        return Formula(self.tree_)

    def parameters(self) -> list[Parameter]:
        """The fitted coefficients."""
        return [Parameter(name, name, value) for name, value in self.values_.items()]

    def _state(self) -> dict[str, Any]:
        return {"tree": self.tree_, "values": self.values_}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.tree_ = Formula.from_document(state["tree"]).tree
        self.values_ = {str(name): float(value) for name, value in state["values"].items()}


@dataclass(frozen=True)
class Search:
    """The search for the coefficients of a formula over the rows of a table; all it needs is laid out once."""

    formula: Formula  # coefficients as columns
    names: Sequence[str]
    columns: Mapping[str, Array]
    y: Array
    scale: Array

    @classmethod
    def of(cls, tree: dict[str, Any], frame: pd.DataFrame, y: Array) -> Search:
        """The search for a tree's coefficients."""
        names = coefficients(tree)
        formula = Formula(with_columns(tree))
        columns = {name: frame[name].to_numpy(float) for name in formula.columns() - set(names)}
        return cls(formula, names, columns, y, np.maximum(np.abs(y), 0.1 * np.median(np.abs(y)) or 1.0))

    def residuals(self, theta: Array) -> Array:
        """Relative errors; where the formula has no value, a large one."""
        known = dict(zip(self.names, np.asarray(theta, float), strict=True))
        value = self.formula.values({**self.columns, **known}, len(self.y))
        return np.asarray(np.clip(np.nan_to_num((value - self.y) / self.scale, nan=1e6), -1e6, 1e6))

    def best(self, starts: Sequence[Array]) -> dict[str, float]:
        """The coefficients with the least squared relative error; ModelError if the formula has no value."""
        # Far starts may overflow on their way; they lose, and that is all.
        with np.errstate(all="ignore"):
            first = sorted((self._from(start, STEPS_FIRST) for start in starts), key=_cost)
            descent = min((self._from(candidate.x, STEPS) for candidate in first[:FINALISTS]), key=_cost)
        if np.max(np.abs(descent.fun)) >= 1e6:
            raise ModelError("it has no value for some rows", where="formula", hint="check logarithms and roots")
        return dict(zip(self.names, (float(value) for value in descent.x), strict=True))

    def _from(self, start: Array, steps: int) -> OptimizeResult:
        """Descend from a start; a formula that takes long to compute takes fewer steps."""
        affordable = int(WORK / (_size(self.formula.tree) * (len(self.y) + 500) * (len(self.names) + 1)))
        return least_squares(self.residuals, start, x_scale="jac", max_nfev=max(3, min(steps, affordable)))


def _cost(result: OptimizeResult) -> float:
    return float(result.cost)


def _size(tree: Mapping[str, Any]) -> int:
    return 1 + sum(_size(part) for part in tree.get("args", ()))


def starts_for(tree: dict[str, Any], y: Array) -> list[Array]:
    """Where the search begins: coefficients may multiply anything, so they spread over orders of magnitude."""
    count, typical = len(coefficients(tree)), float(np.median(np.abs(y)))
    generator = np.random.default_rng(0)
    starts = [np.full(count, typical), np.ones(count), np.zeros(count)]
    return starts + [typical * 10 ** generator.uniform(-4, 1, count) for _ in range(STARTS)]
