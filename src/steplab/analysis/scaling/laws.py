"""Fits of scaling laws to many series at once: Amdahl, Gustafson, and a power of the workers.

All are lines of log time in a level that is free and one shape: log t = θ + g(shape, N), with errors that multiply.

- Amdahl (strong scaling): t(N) = t(1)·(s + (1 − s)/N); s is the share of a step on one worker that no further worker
  shortens (Amdahl, AFIPS 1967).
- Gustafson (weak scaling): S(N) = s + (1 − s)·N, so t(N) = t(1)·N/(s + (1 − s)·N); s is the share of the parallel
  step that does not grow with the workers (Gustafson, CACM 31(5), 1988).
- power: time per sample ∝ N^q, −1 is ideal (MMU thesis, chapter 4).

Intervals of s are profiles: every s whose residuals are not significantly larger than the best ones'. A Wald interval
would be wrong here, because times bend strongly in s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.statistics.variances import joint_freedom

Array = NDArray[np.float64]
Shape = Callable[[Array, Array], Array]
STEPS = 60
MARGIN = 1e-9  # how close to the edge of its domain a share may come


@dataclass(frozen=True)
class Cells:
    """Logarithms of median times by series (rows) and number of workers (columns); `n` counts the trials in each."""

    workers: Array
    y: Array
    n: Array
    variance: Array  # of a replicate as the median feels it, moderated; 0 where there is no trial or nothing tells it
    freedom: Array  # of the variances
    pool: float  # degrees of freedom of all replicates of the study
    judged: NDArray[np.bool_] | bool = True  # False for series whose noise nothing tells

    @cached_property
    def trials(self) -> Array:
        """Trials of each series."""
        return np.asarray(self.n.sum(axis=1))

    @cached_property
    def points(self) -> Array:
        """Different numbers of workers of each series."""
        return np.asarray((self.n > 0).sum(axis=1), dtype=float)


@dataclass(frozen=True)
class Fits:
    """A shape for each series with its interval; `misfit` is the p-value of the law against the replicates."""

    value: Array
    low: Array
    high: Array
    misfit: Array


def amdahl(share: Array, workers: Array) -> Array:
    """The logarithm of t(N)/t(1) under strong scaling.

    >>> np.exp(amdahl(np.array([0.2]), np.array([4.0]))).round(3).tolist()
    [0.4]
    """
    return np.asarray(np.log(share + (1 - share) / workers))


def gustafson(share: Array, workers: Array) -> Array:
    """The logarithm of t(N)/t(1) under weak scaling.

    >>> (4 / np.exp(gustafson(np.array([0.2]), np.array([4.0])))).round(3).tolist()
    [3.4]
    """
    return np.asarray(-np.log(1 - share + share / workers))


def power(q: Array, workers: Array) -> Array:
    """The logarithm of N^q."""
    return np.asarray(q * np.log(workers))


def domain(law: Shape, most: Array) -> tuple[Array, Array]:
    """The shapes for which a law gives times at all, by the largest number of workers.

    A share outside of 0 to 1 is possible: a step that scales better than ideally has a negative one.
    """
    wide = np.full(len(most), 50.0)
    if law is amdahl:
        return -1 / np.maximum(most - 1, MARGIN) + MARGIN, wide
    return (-wide, most / np.maximum(most - 1, MARGIN) - MARGIN) if law is gustafson else (-wide, wide)


def fit(law: Shape, cells: Cells, level: float = 0.95) -> Fits:
    """The shape of each series; NaN where there are fewer than two numbers of workers."""
    from scipy.special import stdtrit

    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = domain(law, np.where(cells.n > 0, cells.workers, 1).max(axis=1, initial=1))
        best = _minimum(law, cells, low, high)
        rest = _squares(law, cells, best)
        slope = _slope(law, cells, best, low, high)
        variance, freedom = _noise(cells, rest, slope)
        limit = rest + variance * stdtrit(freedom, (1 + level) / 2) ** 2
        edges = [_edge(law, cells, best, side, limit) for side in (low, high)]
        misfit = _misfit(cells, rest, slope)
    told = cells.points >= 2
    unsure = told & (cells.trials > 2) & cells.judged
    exact = rest + (cells.n * cells.variance).sum(axis=1) < 1e-20
    return Fits(
        value=np.where(told, best, np.nan),
        low=np.where(unsure, np.where(exact, best, edges[0]), np.nan),
        high=np.where(unsure, np.where(exact, best, edges[1]), np.nan),
        misfit=np.where((cells.points > 2) & (cells.trials > cells.points) & cells.judged & ~exact, misfit, np.nan),
    )


def _noise(cells: Cells, rest: Array, slope: Array) -> tuple[Array, Array]:
    """The variance of a trial as the shape feels it, and its degrees of freedom.

    The replicates' noise counts where the shape is told by it, and what the law leaves of the means counts as well.
    """
    felt = cells.n * slope**2 * cells.variance
    weight = np.maximum((cells.n * slope**2).sum(axis=1), 1e-300)
    own, lacking = cells.trials - cells.points, cells.points - 2
    parts = np.stack([rest, own * felt.sum(axis=1) / weight], axis=-1)
    known = np.stack([lacking, joint_freedom(felt, cells.freedom, cells.pool)], axis=-1)
    return parts.sum(axis=1) / np.maximum(own + lacking, 1), joint_freedom(parts, known, np.inf)


def _misfit(cells: Cells, rest: Array, slope: Array) -> Array:
    """The p-value of what the law leaves of the means, by Box's approximation for unequal noise."""
    from scipy.stats import f

    squares = cells.n * slope**2
    held = cells.n / cells.n.sum(axis=1, keepdims=True) + squares / squares.sum(axis=1, keepdims=True)
    expected = np.where(cells.n > 0, cells.variance * np.maximum(1.0 - held, 0.0), 0.0)
    total = expected.sum(axis=1)
    df = np.clip(total**2 / (expected * cells.variance).sum(axis=1), 1.0, np.maximum(cells.points - 2, 1.0))
    return np.asarray(f.sf(rest / total, df, joint_freedom(expected, cells.freedom, cells.pool)))


def _slope(law: Shape, cells: Cells, shape: Array, low: Array, high: Array) -> Array:
    """How log times change with the shape, the level taken out."""
    width = np.minimum(1e-6, (high - low) * 1e-3)
    up, down = np.minimum(shape + width, high), np.maximum(shape - width, low)
    return _centred((_at(law, cells, up) - _at(law, cells, down)) / (up - down)[:, None], cells.n)


def _centred(values: Array, n: Array) -> Array:
    """Values less their weighted mean over each series: what remains when the level is fitted."""
    return np.asarray(values - (values * n).sum(axis=1, keepdims=True) / n.sum(axis=1, keepdims=True))


def _squares(law: Shape, cells: Cells, shape: Array) -> Array:
    """The sum of squares that the law leaves between the means, at its best level."""
    residual = _centred(np.where(cells.n > 0, cells.y, 0.0) - _at(law, cells, shape), cells.n)
    return np.asarray((cells.n * residual**2).sum(axis=1))


def _at(law: Shape, cells: Cells, shape: Array) -> Array:
    return np.where(cells.n > 0, law(shape[:, None], cells.workers[None, :]), 0.0)


def _minimum(law: Shape, cells: Cells, low: Array, high: Array) -> Array:
    """Gauss and Newton from a coarse scan; the step is halved where it does not help."""
    grid = np.concatenate([np.linspace(-2, 0, 21), np.linspace(0.02, 1, 50), np.linspace(1.1, 5, 40)])
    tried = np.stack([_squares(law, cells, np.clip(np.full(len(low), g), low, high)) for g in grid])
    best = np.clip(grid[np.nanargmin(np.where(np.isfinite(tried), tried, np.inf), axis=0)], low, high)
    rest = _squares(law, cells, best)
    for _ in range(STEPS):
        slope = _slope(law, cells, best, low, high)
        residual = _centred(np.where(cells.n > 0, cells.y, 0.0) - _at(law, cells, best), cells.n)
        step = (cells.n * slope * residual).sum(axis=1) / np.maximum((cells.n * slope**2).sum(axis=1), 1e-300)
        before = best
        best, rest = _descended(law, cells, best, rest, step, low, high)
        if np.nanmax(np.abs(best - before), initial=0.0) < 1e-13:
            break
    return np.asarray(best)


def _descended(
    law: Shape, cells: Cells, best: Array, rest: Array, step: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """The full step or a shorter one, whichever of them leaves less."""
    for factor in (1.0, 0.3, 0.05):
        there = np.clip(best + factor * step, low, high)
        left = _squares(law, cells, there)
        better = left < rest
        best, rest = np.where(better, there, best), np.where(better, left, rest)
    return best, rest


def _edge(law: Shape, cells: Cells, best: Array, side: Array, limit: Array) -> Array:
    """Where the squares reach their limit between the best shape and a side of the domain, by bisection."""
    inside, outside = best.copy(), side.copy()
    for _ in range(STEPS):
        middle = (inside + outside) / 2
        within = _squares(law, cells, middle) <= limit
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return inside
