"""Factors as standardised numbers: logarithms where positive, one column for each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from steplab.models.saved_parts import numbers

Array = np.ndarray
# Rescaling a column must not move a value across a split by a rounding error.
DIGITS = 6


@dataclass(frozen=True)
class Numeric:
    """How one numeric column is encoded, and the range in which it was measured."""

    column: str
    logarithmic: bool
    centre: float
    scale: float
    low: float
    high: float

    def values(self, frame: pd.DataFrame) -> Array:
        """The encoded column."""
        raw = frame[self.column].to_numpy(float)
        raw = np.log(np.maximum(raw, 1e-300)) if self.logarithmic else raw
        return np.asarray(np.round((raw - self.centre) / self.scale, DIGITS))


@dataclass(frozen=True)
class Encoding:
    """Numeric columns, then levels."""

    numeric: tuple[Numeric, ...]
    levels: tuple[tuple[str, str], ...]

    def matrix(self, frame: pd.DataFrame, *, clamped: bool = False) -> Array:
        """The encoded table; clamped, values beyond the measured range are moved to its border."""
        columns = []
        for part in self.numeric:
            values = part.values(frame)
            columns.append(np.clip(values, part.low, part.high) if clamped else values)
        columns += [(frame[column].to_numpy() == level).astype(float) for column, level in self.levels]
        return np.column_stack(columns) if columns else np.zeros((len(frame), 1))

    def to_document(self) -> dict[str, Any]:
        """Plain JSON data."""
        rows = [[p.column, p.logarithmic, p.centre, p.scale, p.low, p.high] for p in self.numeric]
        return {"numeric": rows, "levels": [list(pair) for pair in self.levels]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Encoding:
        """The inverse of `to_document`."""
        parts = []
        for name, logarithmic, *rest in document["numeric"]:
            centre, scale, low, high = (float(value) for value in numbers(rest, 4))
            if scale <= 0:
                raise ValueError("a column's scale is damaged")
            parts.append(Numeric(str(name), bool(logarithmic), centre, scale, low, high))
        return cls(tuple(parts), tuple((str(c), str(v)) for c, v in document["levels"]))


def encoding(frame: pd.DataFrame, numeric: Sequence[str], levels: Mapping[str, Sequence[str]]) -> Encoding:
    """The encoding of a table; constant columns are left out."""
    parts = []
    for column in numeric:
        values = frame[column].to_numpy(float)
        if np.ptp(values) == 0:
            continue
        logarithmic = bool(np.min(values) > 0)
        seen = np.log(values) if logarithmic else values
        # A column that hardly varies beside its size has no logarithm to speak of, but a spread all the same.
        part = Numeric(column, logarithmic, float(np.mean(seen)), float(np.std(seen)) or 1.0, 0.0, 0.0)
        encoded = part.values(frame)
        parts.append(Numeric(column, logarithmic, part.centre, part.scale, float(encoded.min()), float(encoded.max())))
    pairs = [(c, v) for c, known in levels.items() if len(known) > 1 for v in known]
    return Encoding(tuple(parts), tuple(pairs))


@dataclass(frozen=True)
class TargetScale:
    """The target as a standardised number, its logarithm where it is positive."""

    logarithmic: bool
    unit: float
    centre: float
    scale: float

    def forward(self, y: Array) -> Array:
        """From the target to the number that is learned."""
        plain = y / self.unit
        return np.asarray(((np.log(plain) if self.logarithmic else plain) - self.centre) / self.scale)

    def back(self, z: Array) -> Array:
        """From the learned number to the target."""
        value = z * self.scale + self.centre
        return np.asarray(self.unit * (np.exp(np.minimum(value, 700)) if self.logarithmic else value))


def target_scale(y: Array) -> TargetScale:
    """The scale of a target: logarithmic, so that errors count relative to it, if all of it is positive."""
    logarithmic = bool(np.min(y) > 0)
    unit = float(np.median(np.abs(y))) or 1.0
    z = np.log(y / unit) if logarithmic else y / unit
    return TargetScale(logarithmic, unit, float(np.mean(z)), float(np.std(z)) or 1.0)
