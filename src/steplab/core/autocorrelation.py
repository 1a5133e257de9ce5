"""The interval of a median of times that resemble their neighbours, of many series at once; NumPy and speed.

A burst of a neighbour lasts for many iterations, so a hundred of them tell less of their median than a hundred
independent ones. By how much less is in the correlations of the signs around the median: the variance of the share of
values below it grows by τ = 1 + 2·Σ corr(sign_0, sign_k), the integrated autocorrelation time of the signs (Sen,
Annals of Mathematical Statistics 39, 1968). The signs themselves are a poor witness of few iterations; ranks are a
better one, and for a Gaussian copula both follow from the same ρ: rank correlation 6/π·asin(ρ/2), sign correlation
2/π·asin(ρ). τ is the larger of two estimates: that of a first-order series with the same lag-1 correlation, and the sum
over a window of three τ (Sokal, Monte Carlo Methods in Statistical Mechanics, 1997), which sees the slow part of jitter
over a drifting load that lag 1 alone does not. What is left of certainty is that of n/τ values, hence Student's t.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FEWEST = 8  # below that the interval is from the smallest to the largest value, whatever their order
WINDOW = 3.0  # times τ: how far correlations are summed; more lags would add noise, fewer would lose slow changes
HIGHEST = 0.95  # a correlation beyond that cannot be told from a drift
LEAST_FREEDOM = 3.0  # with fewer independent values than four, t would say nothing of the tails
AT_ONCE = 1 << 21  # values in one go


def median_intervals(times: Array, level: float = 0.95) -> tuple[Array, Array]:
    """A confidence interval of the median along the last axis, in whose order the values came.

    NaN for a single value: it says nothing about another one. With fewer than eight values no interval reaches
    95 %; the smallest and the largest are given.

    >>> low, high = median_intervals(np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 5.0]]))
    >>> low.tolist(), high.tolist()
    ([1.0, 5.0], [3.0, 5.0])
    """
    n = times.shape[-1]
    if n < 2:
        nothing = np.full(times.shape[:-1], np.nan)
        return nothing, nothing
    rows = max(AT_ONCE // n, 1)
    table = times.reshape(-1, n)
    ends = [_ends(table[at : at + rows], level) for at in range(0, len(table), rows)]
    low, high = (np.concatenate(side).reshape(times.shape[:-1]) for side in zip(*ends, strict=True))
    return low, high


def _ends(table: Array, level: float) -> tuple[Array, Array]:
    """Interpolated order statistics (Hettmansperger and Sheather, Statistics and Probability Letters 4, 1986)."""
    from scipy.special import stdtrit

    n = table.shape[1]
    inflation = median_inflation(table)
    quantile = stdtrit(np.maximum(n / inflation - 1.0, LEAST_FREEDOM), (1 + level) / 2)
    place = np.maximum((n - 1) / 2 - quantile * np.sqrt(n * inflation) / 2, 0.0)
    ordered = np.sort(table, axis=1)
    return _interpolated(ordered, place), _interpolated(ordered, n - 1 - place)


def _interpolated(ordered: Array, place: Array) -> Array:
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, ordered.shape[1] - 1)
    rows = np.arange(len(ordered))
    least = ordered[rows, below]
    return np.asarray(least + (place - below) * (ordered[rows, above] - least))


def median_inflation(table: Array) -> Array:
    """τ of each row: by how much autocorrelation widens the variance of its median; at least 1.

    >>> bool(median_inflation(np.arange(40.0)[None])[0] > 10)
    True
    >>> median_inflation(np.tile([1.0, 2.0], 20)[None]).tolist()
    [1.0]
    """
    rows, n = table.shape
    if n < FEWEST:
        return np.ones(rows)
    ranks = mean_ranks(table) - (n + 1) / 2
    squares = np.maximum(np.einsum("ij,ij->i", ranks, ranks), 1e-300)
    return np.maximum(_first_order(_gaussian(ranks, squares, 1), n), _summed(ranks, squares))


def mean_ranks(table: Array) -> Array:
    """Ranks from 1 along each row, equal values sharing their mean rank.

    >>> mean_ranks(np.array([[3.0, 1.0, 3.0]])).tolist()
    [[2.5, 1.0, 2.5]]
    """
    order = np.argsort(table, axis=1, kind="stable")
    ordered = np.take_along_axis(table, order, axis=1)
    place = np.broadcast_to(np.arange(table.shape[1]), table.shape)
    edge = np.ones(table.shape, dtype=bool)
    edge[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(edge, place, 0), axis=1)
    edge = np.roll(edge, -1, axis=1)
    last = np.minimum.accumulate(np.where(edge, place, table.shape[1])[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(table.shape)
    np.put_along_axis(ranks, order, (first + last) / 2.0 + 1.0, axis=1)
    return ranks


def _gaussian(ranks: Array, squares: Array, lag: int) -> Array:
    """The correlation, at a lag, of the Gaussian series that has these ranks."""
    return np.asarray(2.0 * np.sin(np.pi / 6 * np.einsum("ij,ij->i", ranks[:, lag:], ranks[:, :-lag]) / squares))


def _first_order(correlation: Array, n: int) -> Array:
    """τ of a first-order series; the bias of the correlation is put back (Kendall, Biometrika 41, 1954)."""
    known, taus = _taus()
    return np.asarray(np.interp((correlation + 1.0 / n) / (1.0 - 3.0 / n), known, taus))


@lru_cache(maxsize=1)
def _taus() -> tuple[Array, Array]:
    """Correlations from 0 on and the τ of their signs."""
    known = np.linspace(0.0, HIGHEST, 96)
    lags = np.arange(1, 400)
    return known, 1.0 + 2.0 * (2.0 / np.pi * np.arcsin(known[:, None] ** lags)).sum(axis=1)


def _summed(ranks: Array, squares: Array) -> Array:
    """τ as the sum over a window that is three times as long as itself; most rows need three lags only."""
    n = ranks.shape[1]
    tau = np.ones(len(ranks))
    left = np.arange(len(ranks))
    for lag in range(1, n // 4 + 1):
        own = _gaussian(ranks[left], squares[left], lag)
        tau[left] += 2.0 * (2.0 / np.pi) * np.arcsin(np.clip(own, -1.0, 1.0))
        ended = (lag >= WINDOW * tau[left]) | (lag == n // 4)
        # The values' own mean was taken out, and with it 1/n of τ for every lag that was summed.
        tau[left[ended]] *= 1.0 + (2 * lag + 1) / n
        left = left[~ended]
        if not len(left):
            break
    return tau
