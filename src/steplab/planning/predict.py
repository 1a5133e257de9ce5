"""Predictions for configurations that nobody has run: value, interval, inside or outside of the range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from steplab.core.errors import ModelError, nearest
from steplab.models.columns.roles import features

if TYPE_CHECKING:
    from steplab.models.base import PerformanceModel

Value = str | float


@dataclass(frozen=True)
class Prediction:
    """A predicted value with its interval, and the factors that leave the measured range."""

    at: dict[str, Value]
    value: float
    low: float
    high: float
    inside: bool
    outside: tuple[str, ...]


def parse_configuration(text: str) -> dict[str, str]:
    """A configuration from its text.

    >>> parse_configuration("batch_size=64, padding=same")
    {'batch_size': '64', 'padding': 'same'}
    """
    made: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            raise ModelError(f"{part!r} is not of the form column=value", hint='write "batch_size=64,workers=4"')
        if name in made:
            raise ModelError(f"column {name!r} is given twice")
        made[name] = value
    if not made:
        raise ModelError("the configuration is empty", hint='write "batch_size=64,workers=4"')
    return made


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
    values, inside = model.predict(frame), model.inside(frame)
    low, high = model.predict_interval(frame, level)
    at = frame.to_dict("records")
    return [
        Prediction({str(k): v for k, v in at[i].items()}, float(values[i]), float(low[i]), float(high[i]),
                   bool(inside.rows[i]), inside.outside[i])
        for i in range(len(frame))
    ]  # fmt: skip
