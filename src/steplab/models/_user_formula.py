"""A formula that a person wrote, with its unknown coefficients fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from steplab.core.errors import ModelError
from steplab.models._parser import coefficients, filled, parse_formula
from steplab.models.base import Array, Parameter, PerformanceModel
from steplab.models.formula import Formula

STARTS = 8


class UserFormula(PerformanceModel):
    """The user's own formula; coefficients by least squares on relative errors, from several starts."""

    tree_: dict[str, Any]

    def __init__(
        self, intrinsic: Sequence[str] = (), categorical: Sequence[str] = (), extrinsic: Sequence[str] = (),
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
        self.values_ = fitted(tree, frame, y)
        self.tree_ = filled(tree, self.values_)

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


def fitted(tree: dict[str, Any], frame: pd.DataFrame, y: Array) -> dict[str, float]:
    """The coefficients with the least squared relative error; ModelError if the formula has no value."""
    names = coefficients(tree)
    scale = np.maximum(np.abs(y), 0.1 * np.median(np.abs(y)) or 1.0)

    def residuals(theta: Array) -> Array:
        value = Formula(filled(tree, dict(zip(names, theta, strict=True)))).evaluate(frame)
        return np.asarray(np.clip(np.nan_to_num((value - y) / scale, nan=1e6), -1e6, 1e6))

    if not names:
        return {}
    generator = np.random.default_rng(0)
    typical = float(np.median(np.abs(y)))
    # Coefficients may multiply anything, so the starts spread over orders of magnitude.
    starts = [np.full(len(names), typical), np.ones(len(names)), np.zeros(len(names))]
    starts += [typical * 10 ** generator.uniform(-4, 1, len(names)) for _ in range(STARTS)]
    # Far starts may overflow on their way; they lose, and that is all.
    with np.errstate(all="ignore"):
        found = [least_squares(residuals, start, x_scale="jac", max_nfev=100) for start in starts]
    best = min(found, key=lambda result: float(result.cost))
    if np.max(np.abs(best.fun)) >= 1e6:
        raise ModelError("it has no value for some rows", where="formula", hint="check logarithms and roots")
    return dict(zip(names, (float(value) for value in best.x), strict=True))
