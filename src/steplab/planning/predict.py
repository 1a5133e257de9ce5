"""Predictions for configurations that nobody has run: value, interval, inside or outside of the range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError, nearest
from steplab.models.columns.meaning import is_scale
from steplab.models.columns.roles import features

if TYPE_CHECKING:
    from steplab.models.base import PerformanceModel

Value = str | float
MOST_COUNT = 1e15
IMPOSSIBLE = "the model falls below what can be: only the interval is worth anything"


@dataclass(frozen=True)
class Prediction:
    """A predicted value with its interval, and the factors that leave the measured range.

    Without an interval (`low` and `high` are None), `note` says why there is none; also what a value below it means.
    """

    at: dict[str, Value]
    value: float
    low: float | None
    high: float | None
    inside: bool
    outside: tuple[str, ...]
    note: str = ""


def parse_configuration(text: str) -> dict[str, str]:
    """A configuration from its text.

    >>> parse_configuration("batch_size=64, padding=same")
    {'batch_size': '64', 'padding': 'same'}
    """
    configuration: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            raise ModelError(f"{part!r} is not of the form column=value", hint='write "batch_size=64,workers=4"')
        if name in configuration:
            raise ModelError(f"column {name!r} is given twice")
        configuration[name] = value
    if not configuration:
        raise ModelError("the configuration is empty", hint='write "batch_size=64,workers=4"')
    return configuration


def configurations(model: PerformanceModel, given: Sequence[dict[str, str]]) -> pd.DataFrame:
    """A table of configurations; a factor that never varied while measuring need not be given."""
    wanted = model.roles_.columns
    rows = []
    for row in given:
        unknown = [name for name in row if name not in wanted]
        if unknown:
            raise ModelError(f"the model has no factor {unknown[0]!r}", hint=nearest(unknown[0], wanted))
        filled = {**_constants(model), **row}
        missing = [name for name in wanted if name not in filled]
        if missing:
            raise ModelError(f"{', '.join(missing)} must be given", hint=f"the model reads {', '.join(wanted)}")
        rows.append(filled)
    return pd.DataFrame(rows)


def _constants(model: PerformanceModel) -> dict[str, str]:
    numbers = {c: repr(low) for c, (low, high) in model.range_.items() if low == high}
    return {**numbers, **{c: levels[0] for c, levels in model.levels_.items() if len(levels) == 1}}


def predict_table(model: PerformanceModel, X: pd.DataFrame, level: float = 0.9) -> list[Prediction]:
    """A prediction for every row of a table."""
    frame = features(X, model.roles_)
    _expect_counts(model, frame)
    with np.errstate(all="ignore"):
        values, inside = model.predict(frame), model.inside(frame)
        low, high = model.predict_interval(frame, level)
    at, predictions = frame.to_dict("records"), []
    if not np.isfinite(values).all():
        where = ", ".join(f"{name}={value}" for name, value in at[int(np.argmin(np.isfinite(values)))].items())
        raise ModelError("the model gives no number there", where=where, hint="stay nearer to what was measured")
    for i in range(len(frame)):
        told = math.isfinite(low[i]) and math.isfinite(high[i])
        ends = (float(low[i]), float(high[i])) if told else (None, None)
        configuration = {str(k): v for k, v in at[i].items()}
        note = no_interval(model, inside.outside[i]) if not told else IMPOSSIBLE if values[i] < low[i] else ""
        predictions.append(
            Prediction(configuration, float(values[i]), ends[0], ends[1], bool(inside.rows[i]), inside.outside[i], note)
        )
    return predictions


def _expect_counts(model: PerformanceModel, frame: pd.DataFrame) -> None:
    """Workers, nodes and threads are counted from one on, and a batch has samples: nothing else can be run."""
    for name, (low, high) in model.range_.items():
        if not is_scale(name) or low < 1 or low % 1 or high % 1:
            continue
        wrong = [value for value in frame[name].to_numpy(float) if not 1 <= value <= MOST_COUNT or value % 1]
        if wrong:
            beyond = f"up to {MOST_COUNT:g}" if wrong[0] > MOST_COUNT else "on"
            raise ModelError(f"{name} = {wrong[0]:g} cannot be run", hint=f"allowed: whole numbers from 1 {beyond}")


def no_interval(model: PerformanceModel, outside: Sequence[str]) -> str:
    """Why a prediction that leaves the range of these factors has no interval."""
    growth = model.growth() or {}
    untold = [column for column in outside if growth.get(column, 0.0) is None] or outside
    return (
        f"no interval can be given: too few values of {', '.join(untold)} were measured to tell the error beyond them;"
        " three would give a wide one, four or more a better one"
    )
