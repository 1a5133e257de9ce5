"""What the page needs to predict by itself: formula, range, levels and interval of each readable model, as data.

The page computes value = formula(row), spread = 1 + 2·Σ_c excess_c(row) (how far numeric factors lie outside of the
measured range) and half = quantile·max(|value|, floor)^power·spread, as `models/held_out/intervals` does. A model
whose own prediction differs from that is not offered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from steplab.core.trial import plain_level
from steplab.models.base import PerformanceModel
from steplab.models.columns.roles import features
from steplab.models.formulas.formula import Formula
from steplab.models.held_out.intervals import excess
from steplab.report.data import ReportData, measured
from steplab.report.modelling import Judged

LEVELS = (0.5, 0.8, 0.9, 0.95)
SAME = 1e-12
REACH = 4.0  # sliders go that many times beyond the measured range
Row = dict[str, str | float]


def what_if(data: ReportData) -> dict[str, Any]:
    """The part of the page's document that its sliders work with."""
    models = [offered for offered in (offer(judged) for judged in data.models.judged) if offered is not None]
    ok = measured(data.trials)
    names = ("batch_size", "global_batch_size", "workers", "dataset")
    constants = {n: plain_level(ok[n].iloc[0]) for n in names if n in ok and len(ok) and ok[n].nunique() == 1}
    return {
        "models": models,
        "constants": {**constants, **_fastest(data)},
        "strong": "global_batch_size" in data.factors or any(one.kind == "strong" for one in data.analysis.scaling),
        "samples": {name: count for name, count in data.provenance.samples.items() if count > 0},
        "levels": list(LEVELS),
    }


def _fastest(data: ReportData) -> dict[str, Any]:
    """Where the sliders stand first: the configuration with the highest throughput."""
    return dict(data.analysis.groups[0].factors) if data.analysis.groups else {}


def offer(judged: Judged) -> dict[str, Any] | None:
    """A model's document for the page; None for one without a formula, or that the formula does not reproduce."""
    model = judged.model
    formula = None if model is None else model.formula()
    if model is None or formula is None or not _reproduced(model, formula):
        return None
    plain = replace(model.interval_, power=0.0)
    quantiles = {str(level): float(plain.half_width(np.ones(1), level)[0]) for level in LEVELS}
    return {
        "name": judged.name,
        "target": model.target_,
        "formula": judged.formula,
        "tree": formula.tree,
        "mape": judged.mape if np.isfinite(judged.mape) else None,
        "range": {name: list(bounds) for name, bounds in model.range_.items()},
        "levels": {name: list(levels) for name, levels in model.levels_.items()},
        "columns": list(model.roles_.columns),
        "interval": {
            "quantiles": quantiles, "power": model.interval_.power, "floor": model.interval_.floor,
            "positive": model.interval_.positive,
        },
    }  # fmt: skip


def _reproduced(model: PerformanceModel, formula: Formula) -> bool:
    """Whether formula and exported interval give the model's own numbers, inside and outside of the range."""
    table = features(pd.DataFrame(_probes(model)), model.roles_)
    with np.errstate(all="ignore"):
        value, (low, high) = model.predict(table), model.predict_interval(table, 0.9)
        own = formula.evaluate(table)
    spread = 1.0 + 2 * sum((_each_excess(table[c].to_numpy(float), *ends) for c, ends in model.range_.items()),
                           start=np.zeros(len(table)))  # fmt: skip
    known = model.interval_
    half = known.half_width(own, 0.9) * spread
    fine = np.isfinite(value)
    return bool(_close(own, value)[fine].all() and _close(own + half, high)[fine].all() and (low <= value)[fine].all())


def _each_excess(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Row by row, as the page and `predict --at` do: whether logarithms are taken depends on all rows together."""
    return np.array([excess(values[i : i + 1], low, high)[0] for i in range(len(values))])


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(a - b) <= SAME * np.maximum(np.abs(a), np.abs(b)))


def _probes(model: PerformanceModel) -> Sequence[Row]:
    """Some rows: the range's ends, middles and beyond, with every level of each category in turn."""
    rows: list[Row] = []
    most = max((len(levels) for levels in model.levels_.values()), default=1)
    for at in range(min(most, 12)):
        for share in (0.0, 0.37, 1.0, 2.5):
            row: Row = {name: low + share * (high - low) for name, (low, high) in model.range_.items()}
            rows.append(row | {name: levels[at % len(levels)] for name, levels in model.levels_.items()})
    return rows
