"""The space of an adaptive design: its candidate configurations as points, in units in which factors are comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from steplab.models.columns.meaning import WORKERS, plain

Array = np.ndarray
LOG_FROM = 4.0  # a positive factor whose largest value is that many times its least is taken in logarithms


@dataclass(frozen=True)
class Space:
    """Candidate configurations; numeric factors lie from −½ to ½, others are numbers of levels."""

    frame: pd.DataFrame

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """The numeric factors that vary."""
        numbers = [c for c in self.frame.columns if _is_number(self.frame[c])]
        return tuple(str(c) for c in numbers if self.frame[c].nunique() > 1)

    @cached_property
    def categorical(self) -> tuple[str, ...]:
        """The other factors that vary."""
        others = [c for c in self.frame.columns if not _is_number(self.frame[c])]
        return tuple(str(c) for c in others if self.frame[c].nunique(dropna=False) > 1)

    @cached_property
    def points(self) -> Array:
        """A row for each candidate, a column for each numeric factor."""
        if not self.numeric:
            return np.zeros((len(self.frame), 0))
        return np.column_stack([_scaled(self.frame[name].to_numpy(float)) for name in self.numeric])

    @cached_property
    def levels(self) -> Array:
        """The number of each candidate's level, a column for each other factor."""
        if not self.categorical:
            return np.zeros((len(self.frame), 0), int)
        return np.column_stack([pd.factorize(self.frame[name].astype(str))[0] for name in self.categorical])

    @property
    def dimensions(self) -> int:
        """Effects that a model without interactions has."""
        return len(self.numeric) + sum(int(column.max()) for column in self.levels.T)

    @cached_property
    def workers(self) -> str:
        """The factor that counts workers; empty if none varies."""
        return next((name for name in self.numeric if plain(name) in WORKERS), "")

    def spread_out(self, number: int, seed: int) -> list[int]:
        """Candidates that fill the space: each next one is the farthest from all before; the first is in the middle."""
        places = np.column_stack([self.points, *(_dummies(column) for column in self.levels.T)])
        tie = 1e-9 * np.random.default_rng(seed).random(len(places))
        first = int(np.argmin(((places - np.median(places, axis=0)) ** 2).sum(1) + tie))
        chosen, distance = [first], ((places - places[first]) ** 2).sum(1)
        while len(chosen) < min(number, len(places)):
            following = int(np.argmax(distance + tie))
            chosen.append(following)
            distance = np.minimum(distance, ((places - places[following]) ** 2).sum(1))
            distance[chosen] = -1.0
        return chosen

    def some(self, most: int, seed: int) -> Array:
        """Candidates that stand for all of the space."""
        if len(self.frame) <= most:
            return np.arange(len(self.frame))
        return np.sort(np.random.default_rng([seed, 7]).choice(len(self.frame), most, replace=False))

    def described(self, row: int, names: Sequence[str] = ()) -> str:
        """A candidate by what varies."""
        varied = names or (*self.numeric, *self.categorical)
        values = self.frame.iloc[row]
        return ", ".join(f"{name}={_written(values[name])}" for name in varied)


def _is_number(values: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(values) and values.dtype != bool and values.notna().all())


def _scaled(values: Array) -> Array:
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low >= LOG_FROM:
        values, low, high = np.log(values), np.log(low), np.log(high)
    return np.asarray((values - low) / (high - low) - 0.5)


def _dummies(codes: Array) -> Array:
    """A column for each level, at half the distance that the ends of a numeric factor have."""
    return np.asarray(np.eye(int(codes.max()) + 1)[codes] * 0.5)


def _written(value: object) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)
