"""What the page needs to predict by itself: formula, range, levels and interval of each readable model, as data.

The page computes value = formula(row), spread = 1 + Σ_c rate_c·distance_c(row) (how far numeric factors lie outside of
the measured range) and value/e^half to value·e^half with half = quantile/size^power·spread, as
`models/held_out/ratio_intervals` does; for targets that may be negative value ± half, as `models/held_out/intervals`. A
model whose own prediction differs from that is not offered.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from steplab.core.trial import plain_level
from steplab.models.base import PerformanceModel
from steplab.models.columns.roles import features
from steplab.models.formulas.formula import Formula
from steplab.models.held_out.ratio_intervals import MOST_HALF, RatioConformal
from steplab.report.data import NetworkSliders, ReportData, measured
from steplab.report.modelling import DEFAULT, Judged

LEVELS = (0.5, 0.8, 0.9, 0.95)
SAME = 1e-12
REACH = 4.0  # sliders go that many times beyond the measured range
Row = dict[str, str | float]


def what_if(data: ReportData) -> dict[str, Any]:
    """The part of the page's document that its sliders work with."""
    models = [offered for offered in (offer(judged) for judged in data.models.judged) if offered is not None]
    models += [offer_network(data.network)] if data.network is not None else []
    models.sort(key=lambda offered: offered["name"] != DEFAULT)
    ok = measured(data.trials)
    names = ("batch_size", "global_batch_size", "workers", "dataset")
    constants = {n: plain_level(ok[n].iloc[0]) for n in names if n in ok and len(ok) and ok[n].nunique() == 1}
    return {
        "models": models,
        "constants": {**constants, **_fastest(data)},
        "strong": "global_batch_size" in data.factors
        or any(series.kind == "strong" for series in data.analysis.scaling),
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
    return {
        "name": judged.name,
        "target": model.target_,
        "formula": judged.formula,
        "tree": formula.tree,
        "mape": judged.mape if np.isfinite(judged.mape) else None,
        "range": {name: list(bounds) for name, bounds in model.range_.items()},
        "levels": {name: list(levels) for name, levels in model.levels_.items()},
        "columns": list(model.roles_.columns),
        "interval": interval_document(model),
    }  # fmt: skip


def offer_network(sliders: NetworkSliders) -> dict[str, Any]:
    """A network's document for the page: the interval is that of the method, however far the sliders go."""
    halves = {str(level): sliders.doubt * NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS}
    sizes = {"typical": 1.0, "smallest": 1.0, "largest": 1.0, "floor": 0.0, "most": MOST_HALF, "power": 0.0}
    growth = dict.fromkeys(sliders.ranges, 0.0)
    return {
        "name": sliders.name,
        "target": "t_iter",
        "formula": sliders.formula.text,
        "tree": sliders.formula.tree,
        "mape": None,
        "range": {name: list(bounds) for name, bounds in sliders.ranges.items()},
        "levels": {},
        "columns": list(sliders.ranges),
        "interval": {"kind": "ratio", "quantiles": halves, "growth": growth, **sizes},
        "command": sliders.command,
    }


def interval_document(model: PerformanceModel) -> dict[str, Any]:
    """How the page computes the model's intervals: quantiles, their scale, and rates outside of the range."""
    law = model.interval_
    known: dict[str, Any] = {"quantiles": {str(level): law.quantile(level) for level in LEVELS}, "power": law.power}
    known["growth"] = model.growth()
    if isinstance(law, RatioConformal):
        sizes = {"typical": law.typical, "smallest": law.smallest, "largest": law.largest}
        return {"kind": "ratio", **known, **sizes, "floor": law.floor, "most": MOST_HALF}
    return {"kind": "difference", **known, "floor": law.floor, "positive": law.positive}


def _reproduced(model: PerformanceModel, formula: Formula) -> bool:
    """Whether formula and exported interval give the model's own numbers, inside and outside of the range."""
    table = features(pd.DataFrame(_probes(model)), model.roles_)
    with np.errstate(all="ignore"):
        value, (low, high) = model.predict(table), model.predict_interval(table, 0.9)
        own = formula.evaluate(table)
        # Row by row, as the page and `predict --at` do.
        spread = np.array([model._spread(table.iloc[i : i + 1])[0] for i in range(len(table))])
        lowest, highest = model.interval_.bounds(own, 0.9, spread)
    fine = np.isfinite(value)
    known = fine & np.isfinite(high)
    return bool(_close(own, value)[fine].all() and (_close(highest, high) & _close(lowest, low))[known].all())


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
