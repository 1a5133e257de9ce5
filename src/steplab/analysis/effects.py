"""Main effects: by which factor a level multiplies the step time, all else equal, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from steplab.core.trial import Level, plain_level

MOST_LEVELS = 50


@dataclass(frozen=True)
class Effect:
    """How a level compares with its factor's reference level; `ratio` multiplies the step time."""

    factor: str
    level: Level
    reference: Level
    ratio: float
    low: float
    high: float
    differs: bool


def main_effects(trials: pd.DataFrame, factors: Sequence[str]) -> list[Effect]:
    """Ordinary least squares of log t_iter on the factors' levels, with the replicates as blocks.

    Times multiply, so effects are ratios. What other factors do to an effect (interactions) is not in here.
    """
    ok = trials[(trials["status"] == "ok") & (trials["t_iter"] > 0)] if len(trials) else trials
    varied = [
        name for name in factors if name in ok and 2 <= ok[name].nunique() <= MOST_LEVELS and ok[name].notna().all()
    ]
    if not varied:
        return []
    terms = [*varied, *(["replicate"] if ok["replicate"].nunique() > 1 else [])]
    design, columns = _dummies(ok, terms)
    if len(ok) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
        return []
    import statsmodels.api as sm

    fitted = sm.OLS(np.log(ok["t_iter"].to_numpy(dtype=float)), design).fit()
    intervals = fitted.conf_int(0.05)
    return [
        _effect(name, level, reference, fitted.params[at], *intervals[at])
        for at, (name, level, reference) in enumerate(columns, start=1)
        if name in varied
    ]


def _varies(column: pd.Series[Any]) -> bool:
    return 2 <= column.nunique() <= MOST_LEVELS and bool(column.notna().all())


def _dummies(ok: pd.DataFrame, names: Sequence[str]) -> tuple[np.ndarray, list[tuple[str, Level, Level]]]:
    """An intercept and one column for each level but the first of each factor."""
    arrays, columns = [np.ones(len(ok))], []
    for name in names:
        levels = sorted(ok[name].unique())
        for level in levels[1:]:
            arrays.append((ok[name] == level).to_numpy(dtype=float))
            columns.append((name, plain_level(level), plain_level(levels[0])))
    return np.column_stack(arrays), columns


def _effect(name: str, level: Level, reference: Level, value: float, low: float, high: float) -> Effect:
    ratio, bottom, top = (float(np.exp(one)) for one in (value, low, high))
    return Effect(name, level, reference, ratio, bottom, top, differs=bottom > 1.0 or top < 1.0)
