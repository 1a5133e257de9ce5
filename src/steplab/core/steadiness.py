"""Whether a series of times stands still: trend, change of level, autocorrelation; pure functions on arrays.

Successive iterations resemble each other (a neighbour's burst lasts for many), so a test that takes them as
independent calls mere noise a drift. Each test here widens its own variance by the lag-1 autocorrelation that is left
after the suspected drift has been taken out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from steplab.core.autocorrelation import mean_ranks, median_intervals
from steplab.core.order_statistics import SIGMA

Array = NDArray[np.float64]
MOST_POINTS = 240  # longer series are first cut into that many blocks' medians: pairs are compared
FEWEST_POINTS = 8  # below that no rank test can be sure of anything at 1 %
UNSURE = 0.05  # a p-value above it settles the question, and the costlier parts of a test are left out
_SURE = NormalDist().inv_cdf(1.0 - UNSURE / 2)
MOST_AT_ONCE = 1 << 20  # values compared in one go
HIGHEST_CORRELATION = 0.9  # beyond it the effective number of values would fall to almost none


@dataclass(frozen=True)
class Drift:
    """By which share a series changed and how surprising that is if nothing changed; `at` is where the level moved."""

    change: float = 0.0
    p: float = 1.0
    at: int | None = None  # None for a gradual change


def middle(values: Array) -> float:
    """The median of a few values; NumPy's general one costs more than all the rest of a verdict.

    >>> middle(np.array([3.0, 1.0, 2.0])), middle(np.array([4.0, 1.0, 2.0, 3.0]))
    (2.0, 2.5)
    """
    ordered, n = np.sort(values), len(values)
    return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2.0


def robust_sigma(values: Array) -> float:
    """Standard deviation as the median absolute deviation tells it, deaf to outliers.

    >>> round(robust_sigma(np.array([1.0, 2.0, 3.0, 4.0, 100.0])), 4)
    1.4826
    """
    return SIGMA * middle(np.abs(values - middle(values)))


def correlation_inflation(residuals: Array) -> float:
    """By how much autocorrelation widens the variance of a mean or a rank statistic: (1 + ρ)/(1 − ρ), at least 1.

    ρ is the lag-1 correlation of ranks, with its bias of about −1/n put back (Kendall, Biometrika 41, 1954).

    >>> correlation_inflation(np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0]))
    1.0
    """
    n = len(residuals)
    ranks = mean_ranks(residuals[None])[0]
    ranks -= (n + 1) / 2
    total = float(ranks @ ranks)
    if n < 3 or not total:
        return 1.0
    rho = float(ranks[1:] @ ranks[:-1]) / total + 1.0 / n
    rho = min(max(rho, 0.0), HIGHEST_CORRELATION)
    return (1.0 + rho) / (1.0 - rho)


def trend(times: Array) -> Drift:
    """A gradual change: Theil-Sen slope over the whole series, judged by the Mann-Kendall test.

    The variance is corrected for autocorrelation after Yue and Wang (Water Resources Management 18, 2004).

    >>> trend(np.linspace(1.0, 1.2, 30)).change > 0.15
    True
    """
    values, _ = _thinned(times)
    n = len(values)
    first, second = _pairs(n)
    differences = values[second] - values[first]
    score = abs(float(np.sign(differences).sum()))
    variance = (n * (n - 1) * (2 * n + 5) - _ties(values)) / 18.0
    if variance <= 0 or _tail(score, variance) > UNSURE:  # autocorrelation can only make it less sure
        return Drift()
    slope = float(np.median(differences / (second - first)))
    variance *= correlation_inflation(values - slope * np.arange(n))
    return Drift(slope * (n - 1) / middle(values), _tail(score, variance))


def _tail(score: float, variance: float) -> float:
    """The two-sided p-value of a Mann-Kendall score, corrected for continuity."""
    return math.erfc(max(score - 1.0, 0.0) / math.sqrt(2.0 * variance))


def shift(times: Array) -> Drift:
    """A change of level somewhere in the series: Pettitt's test (Applied Statistics 28, 1979)."""
    values, block = _thinned(times)
    n = len(values)
    ranks = mean_ranks(values[None])[0]
    sums = np.abs(2.0 * np.cumsum(ranks)[:-1] - np.arange(1, n) * (n + 1.0))
    at = int(np.argmax(sums)) + 1
    if _pettitt(float(sums[at - 1]) ** 2, n) > UNSURE:
        return Drift()
    before, after = middle(values[:at]), middle(values[at:])
    level = np.where(np.arange(n) < at, before, after)
    score = float(sums[at - 1]) ** 2 / correlation_inflation(values - level)
    return Drift(after / before - 1.0 if before else 0.0, _pettitt(score, n), at * block)


def _pettitt(square: float, n: int) -> float:
    """The p-value of Pettitt's squared statistic."""
    return min(1.0, 2.0 * math.exp(-6.0 * square / (n**3 + n**2)))


def drift(times: Array) -> Drift:
    """The surer of a gradual change and a change of level; none is claimed of a very short series."""
    if len(times) < FEWEST_POINTS or not middle(times):
        return Drift()
    return min(trend(times), shift(times), key=lambda test: test.p)


def drifts(times: Array) -> list[Drift]:
    """`drift` of many series of one length, one in each row; only those that may drift are looked at closely."""
    if times.shape[1] < FEWEST_POINTS:
        return [Drift()] * len(times)
    points = min(times.shape[1], MOST_POINTS)
    rows = max(MOST_AT_ONCE // (points * points), 1)
    suspects = [_may_drift(times[at : at + rows]) for at in range(0, len(times), rows)]
    return [
        drift(series) if may else Drift() for series, may in zip(times, np.concatenate(suspects).tolist(), strict=True)
    ]


def _may_drift(times: Array) -> NDArray[np.bool_]:
    """Which rows `trend` or `shift` may be sure of, autocorrelation left aside; rows with equal values are."""
    values, _ = _thinned(times)
    n = values.shape[1]
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    equal = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    first, second = _pairs(n)
    score = np.abs(2.0 * (values[:, second] > values[:, first]).sum(axis=1) - len(first))
    trending = (score - 1.0) ** 2 >= 0.999 * _SURE**2 * n * (n - 1) * (2 * n + 5) / 18.0
    ranks = np.argsort(order, axis=1) + 1.0
    sums = np.abs(2.0 * np.cumsum(ranks, axis=1)[:, :-1] - np.arange(1, n) * (n + 1.0)).max(axis=1)
    shifting = sums**2 >= 0.999 * math.log(2.0 / UNSURE) * (n**3 + n**2) / 6.0
    may: NDArray[np.bool_] = equal | trending | shifting
    return may


def median_error(times: Array) -> float:
    """Half the width of the median's 95 % interval as a share of it; infinite for a single time."""
    low, high = median_intervals(times)
    return relative_error(middle(times), float(low), float(high))


def relative_error(typical: float, low: float, high: float) -> float:
    """Half the width of an interval as a share of what it is of; infinite where there is no interval.

    >>> relative_error(2.0, 1.5, 2.5), relative_error(2.0, math.nan, math.nan), relative_error(0.0, 0.0, 0.0)
    (0.25, inf, 0.0)
    """
    if math.isnan(low) or math.isnan(high):
        return math.inf
    return (high - low) / 2 / typical if typical else 0.0


def _thinned(times: Array) -> tuple[Array, int]:
    """Medians of consecutive blocks if the series is long, and how many values make a block; along the last axis."""
    block = -(-times.shape[-1] // MOST_POINTS)
    if block == 1:
        return times, 1
    whole = times.shape[-1] // block * block
    medians: Array = np.median(times[..., :whole].reshape(*times.shape[:-1], -1, block), axis=-1)
    return medians, block


@lru_cache(maxsize=64)
def _pairs(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of all pairs, the earlier one first."""
    first, second = np.triu_indices(n, 1)
    return first, second


def _ties(values: Array) -> float:
    """What equal values take from the variance of the Mann-Kendall score (times 18)."""
    ordered = np.sort(values)
    if np.all(ordered[1:] != ordered[:-1]):
        return 0.0
    counts = np.unique(values, return_counts=True)[1].astype(float)
    return float((counts * (counts - 1) * (2 * counts + 5)).sum())
