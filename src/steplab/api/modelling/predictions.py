"""Predictions for configurations that nobody has run: value, interval, inside or outside of the measured range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from steplab.api import display
from steplab.api.modelling.network_terms import NetworkTerms, filled
from steplab.core.errors import ModelError
from steplab.core.units import quantity
from steplab.models.base import PerformanceModel
from steplab.planning.predict import Prediction, configurations, parse_configuration, predict_table
from steplab.store.source import frame_source, read_source

SHOWN = 50  # rows in a notebook
Configuration = Mapping[str, object] | str  # {"batch_size": 64, "workers": 4}, or "batch_size=64,workers=4"
At = Configuration | Sequence[Configuration] | pd.DataFrame | Path  # a path is a table, one configuration per row


@dataclass(frozen=True, repr=False)
class Predictions:
    """What a model predicts, one `Prediction` for each configuration: at, value, low, high, inside, outside."""

    model: str
    target: str
    level: float  # the probability that a new measurement lies in the interval
    rows: tuple[Prediction, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.rows)

    def __getitem__(self, at: int) -> Prediction:
        return self.rows[at]

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each configuration."""
        return pd.DataFrame(
            [{**row.at, "value": row.value, "low": row.low, "high": row.high, "inside": row.inside} for row in self]
        )

    def document(self) -> dict[str, Any]:
        """What `steplab predict --json` prints."""
        head = {"model": self.model, "target": self.target, "level": self.level}
        return head | {"predictions": [asdict(row) for row in self]}

    def __repr__(self) -> str:
        if len(self) != 1:
            return f"<{len(self)} predictions of {self.target} by {self.model}>"
        row = self[0]
        ends = f"{self._shown(row.low)} to {self._shown(row.high)} with {self.level:.0%}"
        told = f"{self.target} {self._shown(row.value)} ({row.note if row.low is None else ends})"
        return f"<Prediction {described(row)}: {told}, {placed(row)}>"

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of a table of the predictions."""
        return ("configuration", self.target, f"{self.level:.0%} low", "high", "range")

    @property
    def cells(self) -> list[list[str]]:
        """The rows of a table of `columns`."""
        return [
            [described(row), *(self._shown(end) for end in (row.value, row.low, row.high)), placed(row)] for row in self
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """Why some of the predictions have no interval, each reason once."""
        return tuple(dict.fromkeys(row.note for row in self if row.note))

    def _shown(self, end: float | None) -> str:
        return "–" if end is None else quantity(self.target, end)

    def _repr_html_(self) -> str:
        return display.block(
            display.table(self.columns, self.cells[:SHOWN]), display.rest(len(self) - SHOWN),
            *(display.sentence(note) for note in self.notes),
        )  # fmt: skip


def described(row: Prediction) -> str:
    """The configuration of a prediction in words."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in row.at.items()
    )


def placed(row: Prediction) -> str:
    """Whether it lies in the measured range, and which factors leave it."""
    return "inside" if row.inside else "OUTSIDE: " + ", ".join(row.outside)


def predict(model: PerformanceModel, at: At, level: float = 0.9, terms: NetworkTerms | None = None) -> Predictions:
    """Predict configurations with a fitted model; with a network's terms, what names it becomes its exchange."""
    if not 0 < level < 1:
        raise ModelError(f"level is {level}", hint="it is a probability, such as 0.9")
    rows = predict_table(model, _frame(model, at, terms), level)
    return Predictions(model.name(), model.target_, level, tuple(rows))


def _frame(model: PerformanceModel, at: At, terms: NetworkTerms | None) -> pd.DataFrame:
    if isinstance(at, pd.DataFrame | Path):
        table = frame_source(at) if isinstance(at, pd.DataFrame) else read_source(at)
        if terms is None:
            return table.frame
        at = [{str(name): str(value) for name, value in row.items()} for row in table.frame.to_dict("records")]
    rows = [at] if isinstance(at, Mapping | str) else list(at)
    if not rows:
        raise ModelError("there is no configuration to predict", hint="give {'batch_size': 64, 'workers': 4}")
    configs = [_texts(row) for row in rows]
    return configurations(model, configs if terms is None else filled(configs, terms, model.roles_.columns))


def _texts(row: Configuration) -> dict[str, str]:
    if isinstance(row, str):
        return parse_configuration(row)
    return {str(name): str(value) for name, value in row.items()}
