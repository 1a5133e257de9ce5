"""The generic model: a sum of powers of intrinsic factors, times powers of extrinsic ones, plus what counts cost.

t = (Σ a_i·I_i^p_i + b + categorical terms)·Π E_j^q_j + C (MMU thesis, chapter 4) + Σ s·[N > 1] + g·ln N of workers and
nodes, by variable projection over the powers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError
from steplab.models.base import Parameter, PerformanceModel, folds
from steplab.models.columns.roles import Names
from steplab.models.formulas.expression import Expression
from steplab.models.formulas.formula import Formula
from steplab.models.held_out.extrapolation import Rows
from steplab.models.refusals import Possible
from steplab.models.solvers import parameter_intervals
from steplab.models.solvers.penalty import SCAN, parse_penalty
from steplab.models.solvers.power_search import search
from steplab.models.solvers.prepare import Prepared, counted, distinct_values, prepare
from steplab.models.solvers.varpro import Array, Penalty, mean_loss

OFFERED = {"auto": 20, "compare": 0, "report": 40}


class Generic(PerformanceModel):
    """The generic performance model.

    `loss` is `absolute` (the source's), `relative` or `squared`; `penalty` as in `l2:0.001` or `l2:cv`;
    `starts` is the number of random starts beside the systematic ones, `seed` theirs. `form` is `steps`, or `source`
    for the source's own expression: no terms of counts, a base only where nothing else is constant, no prior on powers.
    """

    needs_positive_columns: ClassVar[str] = "they have no powers"
    needs_positive_target: ClassVar[str] = "its coefficients are not negative"
    failing_checks: ClassVar[Mapping[str, str]] = {
        "check_regressors_no_decision_function": "it asks for 11 rows with four columns, and the check gives 10"
    }

    possible_options: ClassVar[Possible] = {
        "starts": range(10_001), "seed": range(2**32),
    }  # fmt: skip

    expression_: Expression
    parameters_: list[Parameter]
    penalty_: Penalty
    left_out_: Array
    _unjudged: Rows

    def __init__(
        self, intrinsic: Names = (), categorical: Names = (), extrinsic: Names = (),
        loss: str = "absolute", penalty: str = "none", starts: int = 0, seed: int = 0, form: str = "steps",
    ) -> None:  # fmt: skip
        super().__init__(intrinsic, categorical, extrinsic)
        self.loss, self.penalty, self.starts, self.seed, self.form = loss, penalty, starts, seed, form

    def _rows_needed(self, frame: pd.DataFrame) -> int:
        distinct = distinct_values({c: frame[c].to_numpy() for c in self.roles_.columns})
        inner = sum(2 if distinct[c] > 2 else distinct[c] - 1 for c in self.roles_.intrinsic)
        levels = sum(distinct[c] - 1 for c in self.roles_.categorical)
        counts = len(counted(frame, self.roles_)) if self.form == "steps" else 0
        return inner + levels + sum(distinct[c] > 1 for c in self.roles_.extrinsic) + counts + 3

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        choice = parse_penalty(self.penalty)
        if not y.any():
            raise ModelError("the target is 0 in every row", hint="there is nothing to explain")
        prepared = prepare(frame, y, self.roles_, self.levels_, self.loss, choice.penalty, self.form)
        point = search(prepared.problem, seed=self.seed, starts=self.starts)
        if choice.by_cross_validation:
            chosen = _cross_validated(prepared, point.theta, groups)
            prepared = replace(prepared, problem=replace(prepared.problem, penalty=chosen))
            point = search(prepared.problem, seed=self.seed, starts=self.starts, near=point.theta)
        self.penalty_ = prepared.problem.penalty
        self.expression_ = prepared.expression(point)
        self.__dict__.pop("parameters_", None)
        self._unjudged = frame, y, groups

    def _judged(self) -> Self:
        """The model with intervals of its parameters, which copies that only predict never ask for."""
        if "parameters_" not in self.__dict__:
            self._judge(*self._unjudged)
            del self._unjudged
        return self

    def _judge(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        """Set the parameters with their intervals, and each row's prediction without that row."""
        columns = {c: frame[c].to_numpy() for c in self.roles_.columns}
        predicted = self.expression_.predict(columns)
        slopes = parameter_intervals.slopes(self.expression_, columns, predicted, ours=self.form == "steps")
        jacobian = np.column_stack([slope.column for slope in slopes]) if slopes else np.zeros((len(y), 0))
        unit = np.abs(y) if self.loss == "relative" else np.ones(len(y))
        known = parameter_intervals.evidence(jacobian, predicted, y, unit, self.loss == "squared")
        bread = parameter_intervals.bread(known)
        covered = parameter_intervals.covariance(known, groups, bread)
        clusters = len(y) if groups is None else len(np.unique(groups))
        parameters = parameter_intervals.parameters(slopes, covered, bread.flatness, clusters - len(slopes))
        self.parameters_ = _with_undetermined(parameters, self.expression_)
        self.left_out_ = np.asarray(predicted - parameter_intervals.held_out_shift(known, bread))

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        # Replicates that share a configuration must leave together: only refitting shows that.
        return self._judged().left_out_ if groups is None else super()._held_out(frame, y, groups)

    def _predict(self, frame: pd.DataFrame) -> Array:
        return self.expression_.predict(frame)

    def formula(self) -> Formula:
        """The fitted expression."""
        return self.expression_.formula()

    def parameters(self) -> list[Parameter]:
        """Coefficients a, powers p and q, base b, differences d from reference levels, constant C, costs s and g."""
        return self._judged().parameters_

    def _state(self) -> dict[str, Any]:
        return {
            "expression": self.expression_.to_document(),
            "parameters": [asdict(parameter) for parameter in self.parameters()],
            "penalty": asdict(self.penalty_),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.expression_ = Expression.from_document(state["expression"])
        self._require_columns()
        self.parameters_ = [Parameter(**parameter) for parameter in state["parameters"]]
        self.penalty_ = Penalty(**state["penalty"])

    def _require_columns(self) -> None:
        expression, roles = self.expression_, self.roles_
        fits = set(expression.coef) == set(roles.intrinsic) and set(expression.scale) == set(roles.extrinsic)
        per_node = () if expression.per_node is None else (expression.per_node.workers, expression.per_node.nodes)
        fits = fits and {*expression.steps, *expression.logs, *per_node} <= set(roles.numeric)
        if not fits or {c: tuple(v) for c, v in expression.levels.items()} != self.levels_:
            raise ValueError("the expression does not match the columns")


def _with_undetermined(determined: list[Parameter], expression: Expression) -> list[Parameter]:
    """The parameters in the order of the expression, with those that the data say nothing about."""
    have = {(parameter.name, parameter.symbol): parameter for parameter in determined}
    wanted: list[tuple[str, str, float, float, float | None]] = []
    for c, a in expression.coef.items():
        wanted += [(c, "a", a, 0.0, None), (c, "p", expression.power[c], -5.0, 5.0)]
    wanted.append(("base", "b", expression.base, 0.0, None))
    for c, values in expression.levels.items():
        wanted += [(f"{c}={name}", "d", value, -np.inf, None) for name, value in list(values.items())[1:]]
    wanted += [(c, "q", q, -5.0, 5.0) for c, q in expression.scale.items()]
    wanted.append(("constant", "C", expression.constant, 0.0, None))
    wanted += [(f"{c} > 1", "s", cost, 0.0, None) for c, cost in expression.steps.items()]
    wanted += [(f"ln {c}", "g", cost, 0.0, None) for c, cost in expression.logs.items()]
    if expression.per_node is not None:
        wanted.append((f"ln {expression.per_node.name}", "g", expression.per_node.cost, 0.0, None))
    return [
        have.get((name, symbol), Parameter(name, symbol, value, low if np.isfinite(low) else None, high, False))
        for name, symbol, value, low, high in wanted
    ]


def _cross_validated(prepared: Prepared, theta: Array, groups: Array | None) -> Penalty:
    """The λ, the same for coefficients and powers, with the least held-out loss."""
    problem = prepared.problem
    parts = folds(len(problem.y), groups, 5)

    def held_out(strength: float) -> float:
        total, penalty = 0.0, replace(problem.penalty, coef=strength, power=strength)
        for train, test in parts:
            point = search(replace(problem.rows(train), penalty=penalty), seed=0, starts=0, near=theta, finished=1e-6)
            rest = problem.rows(test)
            total += mean_loss(rest, rest.y - rest.basis(point.theta) @ point.coef) * len(test)
        return total

    best = min(SCAN, key=held_out)
    return replace(problem.penalty, coef=best, power=best)


MODEL = Generic
