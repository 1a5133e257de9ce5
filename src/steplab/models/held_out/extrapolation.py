"""How the error grows outside of the measured range, learned by extrapolating inside.

At several borders inside the range of a factor, a copy of the model is fitted to the rows up to the border and predicts
those beyond. What their errors exceed the interval by, for each unit of distance, is the rate at which the interval
must widen: distance is ln(x / border) for positive factors, else (x − border) in widths of the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

Array = np.ndarray
Rows = tuple[pd.DataFrame, Array, Array | None]  # factors, target, groups
Rates = dict[str, float | None]  # by column; None: the data cannot tell
# Extrapolating inside needs fewer rows than fitting.
MOST_ROWS = 400
# Closer to the border than this a value counts as measured: rounding is no extrapolation.
NEXT_TO_NOTHING = 1e-9
MOST_BORDERS = 4
# Each border is one try of the model. A single one that goes well may do so by luck: what it needed counts three times,
# and is at least 0.3 in logarithms for each e-fold; one that goes badly (0.7 and more) is believed as it is.
SINGLE_TIMES, SINGLE_LEAST, SINGLE_BAD = 3.0, 0.3, 0.7
# Nothing is known as well outside as inside: borders that show no growth may do so by luck.
LEAST_RATE = 0.25
LEVEL = 0.9


@dataclass(frozen=True)
class Border:
    """Rows up to a value of a factor, rows beyond it, and how far beyond each of these lies."""

    column: str
    value: float
    train: Array
    test: Array
    distance: Array


def distance(values: Array, low: float, high: float) -> Array:
    """How far values lie outside of low..high: a logarithm of the ratio for positive ranges, else in widths.

    >>> distance(np.array([2.0, 8.0, 32.0]), 1.0, 8.0).round(3).tolist()
    [0.0, 0.0, 1.386]
    """
    if low > 0:
        # Zero and below have no logarithm: as far as a thousandth of the smallest value.
        logs = np.log(np.maximum(values, low * 1e-3))
        return np.asarray(np.maximum(np.maximum(math.log(low) - logs, logs - math.log(high)), 0.0))
    width = high - low or max(abs(high), 1.0)
    return np.asarray(np.maximum(np.maximum(low - values, values - high), 0) / width)


def inner_borders(frame: pd.DataFrame, column: str, fewest: int, most: int = MOST_BORDERS) -> list[Border]:
    """Borders inside the range of a factor, with at least two of its values and `fewest` rows up to each.

    >>> [b.value for b in inner_borders(pd.DataFrame({"n": [1, 2, 4, 8] * 3}), "n", 6)]
    [2.0, 4.0]
    """
    values = frame[column].to_numpy(float)
    low = float(values.min())
    possible = [v for v in np.unique(values)[1:-1].tolist() if np.sum(values <= v) >= fewest]
    chosen = np.unique(np.linspace(0, len(possible) - 1, min(most, len(possible))).round().astype(int))
    borders = []
    for value in (possible[i] for i in chosen):
        train, test = np.flatnonzero(values <= value), np.flatnonzero(values > value)
        borders.append(Border(column, value, train, test, distance(values[test], low, value)))
    return borders


def needed_rate(scores: Array, distances: Array, inside: float) -> float:
    """By how much, for each unit of distance, an interval of half width `inside` must grow to hold 90 % of the scores.

    >>> needed_rate(np.array([1.0, 3.0]), np.array([1.0, 2.0]), 1.0)
    0.9
    """
    excess = np.maximum(scores / inside - 1, 0) / distances
    return float(np.quantile(excess, LEVEL))


def combined_rate(rates: Sequence[float], half: float) -> float | None:
    """One rate from those of several borders: their mean, of two the larger, of one far more than it; None without any.

    `half` is the half width inside, in logarithms, which rates multiply.

    >>> [combined_rate(rates, 0.1) for rates in ([1.0, 3.0], [1.0, 2.0, 6.0], [0.0, 0.0], [])]
    [3.0, 3.0, 0.25, None]
    >>> [round(combined_rate([rate], 0.1), 6) for rate in (0.0, 2.0, 5.0, 9.0)]
    [3.0, 6.0, 7.0, 9.0]
    """
    if not rates:
        return None
    if len(rates) == 1:
        return max(rates[0], min(SINGLE_TIMES * rates[0], SINGLE_BAD / half), SINGLE_LEAST / half)
    rate = max(rates) if len(rates) == 2 else float(np.mean(rates))
    return max(float(rate), LEAST_RATE)


def rates(
    frame: pd.DataFrame, columns: Sequence[str], scored: Callable[[Border], Array | None], inside: float, half: float,
    fewest: int,
) -> Rates:  # fmt: skip
    """The rate of each factor; `scored` gives the scores of the rows beyond a border, or None if the fit fails.

    `inside` is the half width inside in the unit of the scores, `half` the same in logarithms.
    """
    by_column: Rates = {}
    for column in columns:
        needed = []
        for border in inner_borders(frame, column, fewest):
            scores = scored(border)
            if scores is not None and np.isfinite(scores).any():
                known = np.isfinite(scores)
                needed.append(needed_rate(scores[known], border.distance[known], inside))
        by_column[column] = combined_rate(needed, half)
    return by_column


def thinned(frame: pd.DataFrame, y: Array, groups: Array | None, most: int = MOST_ROWS) -> Rows:
    """At most so many rows, chosen evenly at random."""
    if len(y) <= most:
        return frame, y, groups
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:most])
    return frame.iloc[rows].reset_index(drop=True), y[rows], None if groups is None else groups[rows]


def saved_rates(saved: object, columns: tuple[str, ...]) -> Rates | None:
    """The rates of a saved model; none in a file from before there were any."""
    if saved is None:
        return None
    if not isinstance(saved, dict) or set(saved) != set(columns):
        raise ValueError("the growth of the interval is damaged")
    by_column = {c: None if saved[c] is None else float(saved[c]) for c in columns}
    if any(rate is not None and not 0 <= rate < np.inf for rate in by_column.values()):
        raise ValueError("the growth of the interval is damaged")
    return by_column
