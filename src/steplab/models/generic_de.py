"""The generic expression fitted as its source did it: SciPy's differential evolution, ten seeds.

Mean absolute error (and penalty) over all coefficients and powers at once, SciPy's default settings, bounds
0..1000 and −5..5 (MMU thesis, chapter 4). It is the reproduction, and the baseline that `generic` beats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.optimize import Bounds, differential_evolution

from steplab.models.base import Parameter
from steplab.models.columns.roles import Names
from steplab.models.generic import Generic
from steplab.models.refusals import Possible
from steplab.models.solvers.penalty import parse_penalty
from steplab.models.solvers.prepare import Prepared, prepare
from steplab.models.solvers.varpro import LARGEST, Array, PowersPoint, Problem, mean_loss

# Ten evolutions take minutes: it is fitted only when it is asked for.
OFFERED: dict[str, int] = {}
# A parameter whose seeds disagree by more than this share of its mean is not identified.
WIDEST_SPREAD = 0.05


class GenericDE(Generic):
    """The generic model by differential evolution.

    Predicts with the best seed; parameters are the mean over `seeds` seeds, with the standard deviation.
    `maxiter` and `popsize` are SciPy's. With `units="table"` the bounds hold in the table's own units, as in
    the source; with `typical` in typical units, so that units do not matter.
    """

    possible_options: ClassVar[Possible] = {
        "seeds": range(1, 1001), "maxiter": range(1, 100_001), "popsize": range(1, 1001), "units": ("typical", "table"),
    }  # fmt: skip
    score_is_luck: ClassVar[str] = "the optimum that few generations reach depends on the last bits, so on the machine"
    quick_options: ClassVar[Mapping[str, Any]] = {"seeds": 2, "maxiter": 25, "popsize": 4}
    array_options: ClassVar[Mapping[str, Any]] = {"seeds": 1, "maxiter": 5, "popsize": 2}
    failing_checks: ClassVar[Mapping[str, str]] = Generic.failing_checks

    def __init__(
        self, intrinsic: Names = (), categorical: Names = (), extrinsic: Names = (),
        loss: str = "absolute", penalty: str = "none", seeds: int = 10, maxiter: int = 1000,
        popsize: int = 15, units: str = "typical",
    ) -> None:  # fmt: skip
        super().__init__(intrinsic, categorical, extrinsic, loss, penalty, form="source")
        self.seeds, self.maxiter, self.popsize, self.units = seeds, maxiter, popsize, units

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return [name for name in super()._get_param_names() if name not in ("starts", "seed", "form")]

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        self.penalty_ = parse_penalty(self.penalty).penalty
        prepared = prepare(frame, y, self.roles_, self.levels_, self.loss, self.penalty_)
        prepared = in_table_units(prepared, y) if self.units == "table" else rounded(prepared)
        points = [self._evolved(prepared.problem, seed) for seed in range(self.seeds)]
        points.sort(key=lambda point: -point.cost)  # the best comes last and stays
        runs = []
        for point in points:
            self.expression_ = prepared.expression(point)
            self._judge(frame, y, groups)
            runs.append(self.parameters_)
        self.parameters_ = [_over_seeds(same) for same in zip(*runs, strict=True)]

    def _border_copy(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Generic:
        """The same form by variable projection: an evolution at each border would take minutes."""
        other = Generic(self.intrinsic, self.categorical, self.extrinsic, self.loss, self.penalty, form="source")
        other.roles_, other.target_ = self.roles_, self.target_
        other._learn(frame.reset_index(drop=True), y, groups)
        return other

    def _evolved(self, problem: Problem, seed: int) -> PowersPoint:
        low, high, objective = objective_of(problem)
        evolution = differential_evolution(
            objective,
            Bounds(low, high),
            rng=np.random.default_rng(seed),
            maxiter=self.maxiter,
            popsize=self.popsize,
        )
        split = len(problem.low)
        theta, coef = np.asarray(evolution.x[:split]), np.asarray(evolution.x[split:])
        basis = problem.basis(theta)
        return PowersPoint(theta, coef, basis, problem.y - basis @ coef, float(evolution.fun))


def objective_of(problem: Problem) -> tuple[Array, Array, Callable[[Array], float]]:
    """Bounds and the source's cost over all unknowns: powers, coefficients, constant."""
    split, size = len(problem.low), problem.inner.shape[1] + problem.levels.shape[1] + 1

    def cost(x: Array) -> float:
        residual = problem.y - problem.basis(x[:split]) @ x[split:]
        return mean_loss(problem, residual) + problem.penalty.cost(x[split:], x[:split])

    low = np.concatenate([problem.low, np.zeros(size)])
    return low, np.concatenate([problem.high, np.full(size, LARGEST)]), cost


def in_table_units(prepared: Prepared, y: Array) -> Prepared:
    """The same problem without any scaling: factors and target as they stand in the table."""
    problem = prepared.problem

    def shifted(logs: Array, on: Array, columns: Sequence[str]) -> Array:
        return np.asarray(logs + on * np.log([prepared.typical[c] for c in columns]))

    relative = bool((problem.unit != 1).any())
    raw = replace(
        problem, y=y, unit=np.abs(y) if relative else problem.unit,
        inner=shifted(problem.inner, problem.inner_on, prepared.intrinsic),
        outer=shifted(problem.outer, problem.outer_on, prepared.extrinsic),
    )  # fmt: skip
    return replace(prepared, problem=raw, typical=dict.fromkeys(prepared.typical, 1.0), unit=1.0)


def rounded(prepared: Prepared) -> Prepared:
    """The same problem with ten digits: evolution would carry a unit's last bit into another population."""
    problem = prepared.problem
    y, inner, outer = (np.round(a, 10) for a in (problem.y, problem.inner, problem.outer))
    return replace(prepared, problem=replace(problem, y=y, inner=inner, outer=outer))


def _over_seeds(same: Sequence[Parameter]) -> Parameter:
    values = np.array([parameter.value for parameter in same])
    mean, std = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0
    told = len(values) > 1 and std <= WIDEST_SPREAD * abs(mean)
    first = same[0]
    return Parameter(first.name, first.symbol, mean, mean - 1.96 * std, mean + 1.96 * std, told, std)


MODEL = GenericDE
