"""The λ scan of the source: accuracy and parameters of the generic model against λ (MMU thesis, chapter 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from steplab.core.blas import one_thread
from steplab.models.columns.roles import Roles, canonical_order, features
from steplab.models.held_out.folds import Array, folds
from steplab.models.judging.selection import metrics
from steplab.models.solvers.penalty import SCAN
from steplab.models.solvers.power_search import search
from steplab.models.solvers.prepare import Prepared, prepare
from steplab.models.solvers.varpro import Penalty


@dataclass(frozen=True)
class ScanRow:
    """One penalty: held-out R² and MAPE (per cent), and every parameter of the fit to all rows."""

    penalty: str
    strength: float
    r2: float
    mape: float
    parameters: dict[str, float]


def scan(
    X: pd.DataFrame, y: Array, roles: Roles, groups: Array | None = None, *,
    loss: str = "absolute", strengths: Sequence[float] = SCAN, form: str = "steps",
) -> list[ScanRow]:  # fmt: skip
    """Fits with L1 and L2 penalties of every strength, judged by five random folds; groups stay together.

    `form` is that of `generic`, or `source` for the source's own expression.
    """
    frame, target = features(X, roles), np.asarray(y, float)
    order = canonical_order(frame, target)
    frame, target = frame.iloc[order].reset_index(drop=True), target[order]
    groups = None if groups is None else np.asarray(groups)[order]
    levels = {c: tuple(sorted(frame[c].unique())) for c in roles.categorical}
    prepared = prepare(frame, target, roles, levels, loss, Penalty(), form)
    with one_thread():
        free = search(prepared.problem, seed=0, starts=2).theta
        return [_row(prepared, Penalty(kind, s, s), free, groups) for kind in ("l1", "l2") for s in strengths]


def _row(prepared: Prepared, penalty: Penalty, near: Array, groups: Array | None) -> ScanRow:
    problem = replace(prepared.problem, penalty=penalty)
    predicted = np.empty(len(problem.y))
    for train, test in folds(len(problem.y), groups, 5):
        point = search(problem.rows(train), seed=0, starts=0, near=near, finished=1e-6)
        predicted[test] = problem.rows(test).basis(point.theta) @ point.coef
    judged = metrics(problem.y, predicted)
    expression = prepared.expression(search(problem, seed=0, starts=0, near=near, finished=1e-6))
    parameters = {f"{c}.a": a for c, a in expression.coef.items()} | {f"{c}.p": p for c, p in expression.power.items()}
    parameters |= {f"{c}={lv}.d": d for c, values in expression.levels.items() for lv, d in list(values.items())[1:]}
    parameters |= {f"{c}.q": q for c, q in expression.scale.items()} | {"base.b": expression.base}
    parameters |= {f"{c} > 1.s": cost for c, cost in expression.steps.items()}
    parameters |= {f"ln {c}.g": cost for c, cost in expression.logs.items()} | {"constant.C": expression.constant}
    if expression.per_node is not None:
        parameters[f"ln {expression.per_node.name}.g"] = expression.per_node.cost
    return ScanRow(penalty.kind, penalty.coef, judged.r2, judged.mape, parameters)
