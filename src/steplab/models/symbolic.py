"""Symbolic regression: a short formula found by search, checked to stay sane beyond the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError
from steplab.models.base import Array, Parameter, PerformanceModel, folds
from steplab.models.columns.roles import Names
from steplab.models.formulas.formula import Formula, Node, column, level, number, op
from steplab.models.formulas.level_factors import Factors, level_factors, multiplier
from steplab.models.held_out.ranges import upper_ranges
from steplab.models.refusals import Possible
from steplab.models.solvers.symbolic_search import expressions, refitted, sane

# Its search takes seconds at each border: `auto` tries it only if it is named.
OFFERED = {"compare": 0}


class Symbolic(PerformanceModel):
    """t = unit · f(x_1/x̄_1, x_2/x̄_2 …) · levels, with f found by genetic programming (Operon).

    Of the expressions that the search offers, those that leave the measured values' proportion within four
    times the measured range are dropped; of the others the one with the least error on random folds and on
    held-out upper ranges is taken.
    """

    needs_positive_target: ClassVar[str] = "it describes times, which are positive"
    array_options: ClassVar[Mapping[str, Any]] = {"evaluations": 1_000, "candidates": 1}
    failing_checks: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("check_estimators_nan_inf", "check_regressors_no_decision_function", "check_fit2d_1feature"),
        "it asks for 12 rows, and the check gives 10",
    )
    # The search takes minutes, and finds chance among many columns.
    most_columns_in_auto: ClassVar[int | None] = 3
    possible_options: ClassVar[Possible] = {
        "evaluations": range(1, 10**8 + 1), "candidates": range(1, 1001),
    }  # fmt: skip
    quick_options: ClassVar[Mapping[str, Any]] = {"evaluations": 5_000, "candidates": 2}

    tree_: Node
    typical_: dict[str, float]
    unit_: float
    factors_: Factors

    def __init__(
        self, intrinsic: Names = (), categorical: Names = (), extrinsic: Names = (),
        evaluations: int = 30_000, candidates: int = 8,
    ) -> None:  # fmt: skip
        super().__init__(intrinsic, categorical, extrinsic)
        self.evaluations, self.candidates = evaluations, candidates

    def _rows_needed(self, frame: pd.DataFrame) -> int:
        return max(12, 2 * len(frame.columns) + 4)

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        if np.min(y) <= 0:
            hint = "remove rows with a target of zero or below, or use another model"
            raise ModelError("model 'symbolic' describes times, which are positive", hint=hint)
        self.factors_ = level_factors(frame, y, self.roles_.numeric, self.levels_)
        self.typical_ = {
            name: float(np.median(np.abs(frame[name]))) or 1.0
            for name in self.roles_.numeric if frame[name].nunique() > 1
        }  # fmt: skip
        self.unit_ = float(np.median(y))
        scaled, z, weight = self._scaled(frame), *self._plain(frame, y)
        if scaled.shape[1] == 0:
            self.tree_ = number(float(np.median(z)))
            return
        order = np.random.default_rng(0).permutation(len(z))
        trees = expressions(scaled.to_numpy()[order], z[order], self.evaluations)
        self.tree_ = self._best(trees, scaled, z, weight, groups)

    def _scaled(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The varying columns over their typical values, named X1, X2 and so on."""
        columns = {f"X{i + 1}": frame[name] / typical for i, (name, typical) in enumerate(self.typical_.items())}
        return pd.DataFrame(columns, index=frame.index).reset_index(drop=True)

    def _plain(self, frame: pd.DataFrame, y: Array) -> tuple[Array, Array]:
        z = y / self.unit_ / multiplier(frame, self.factors_)
        return z, 1 / z

    def _best(self, trees: list[Node], scaled: pd.DataFrame, z: Array, weight: Array, groups: Array | None) -> Node:
        fitted = [refitted(tree, scaled, z, weight) for tree in trees]
        safe = [tree for tree in fitted if sane(tree, scaled, z)]
        if not safe:
            return number(float(np.median(z)))
        near = sorted(safe, key=lambda tree: _miss(tree, scaled, z, weight))[: self.candidates]
        splits = folds(len(z), groups, 3) + upper_ranges(scaled, list(scaled.columns))

        def error(tree: Node) -> float:
            misses = []
            for train, test in splits:
                other = refitted(tree, scaled.iloc[train], z[train], weight[train])
                misses.append(_miss(other, scaled.iloc[test], z[test], weight[test]))
            return float(np.mean(misses))

        return min(near, key=error)

    def _predict(self, frame: pd.DataFrame) -> Array:
        scaled = self._scaled(frame)
        value = Formula(self.tree_).evaluate(scaled)
        return np.asarray(self.unit_ * value * multiplier(frame, self.factors_))

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        """New numbers for the expression that was found, fold by fold."""
        scaled, (z, weight), predicted = self._scaled(frame), self._plain(frame, y), np.empty(len(y))
        for train, test in folds(len(y), groups, self.interval_folds):
            tree = refitted(self.tree_, scaled.iloc[train], z[train], weight[train])
            predicted[test] = Formula(tree).evaluate(scaled.iloc[test])
        return np.asarray(self.unit_ * predicted * multiplier(frame, self.factors_))

    def formula(self) -> Formula:
        """The expression in the columns' and the target's own units."""
        typical = {f"X{i + 1}": pair for i, pair in enumerate(self.typical_.items())}
        levels = [level(name, values) for name, values in self.factors_.items()]
        return Formula(op("mul", number(self.unit_), _named(self.tree_, typical), *levels))

    def parameters(self) -> list[Parameter]:
        """The unit of the result and the typical value of each column."""
        scales = [
            Parameter(f"typical {name}", f"x_{i + 1}", value) for i, (name, value) in enumerate(self.typical_.items())
        ]
        return [Parameter("unit of the result", "t_0", self.unit_), *scales]

    def _state(self) -> dict[str, Any]:
        return {"tree": self.tree_, "typical": self.typical_, "unit": self.unit_, "factors": self.factors_}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.typical_ = {str(name): float(value) for name, value in state["typical"].items()}
        formula = Formula.from_document(state["tree"])
        known = {f"X{i + 1}" for i in range(len(self.typical_))}
        if not formula.columns() <= known or not set(self.typical_) <= set(self.roles_.numeric):
            raise ValueError("the expression names columns that the model does not have")
        self.tree_, self.unit_ = formula.tree, float(state["unit"])
        self.factors_ = {
            name: {str(k): float(v) for k, v in state["factors"][name].items()} for name in state["factors"]
        }


def _miss(tree: Node, scaled: pd.DataFrame, z: Array, weight: Array) -> float:
    value = np.nan_to_num(Formula(tree).evaluate(scaled), nan=1e6, posinf=1e6, neginf=-1e6)
    return float(np.mean(np.minimum(np.abs(value - z) * weight, 1e3)))


def _named(tree: Node, typical: Mapping[str, tuple[str, float]]) -> Node:
    if tree["op"] == "column":
        name, value = typical[tree["name"]]
        return op("div", column(name), number(value))
    return {**tree, "args": [_named(arg, typical) for arg in tree["args"]]} if "args" in tree else tree


MODEL = Symbolic
