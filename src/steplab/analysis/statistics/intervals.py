"""Confidence intervals of medians over replicates, from few replicates and many configurations.

Times multiply, so everything is on the log scale. A configuration's noise is its replicates' own, moderated by that of
the others (`variances`), and its median has Student's t with the degrees of freedom that this leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.statistics.variances import joint_freedom, moderated

Array = NDArray[np.float64]
# Of a configuration: from all replicates, from its own, from the iterations of its only trial, or not at all.
Method = Literal["moderated", "t", "within-trial", "none"]
MOST_JOINT = 300  # estimates whose joint distribution is simulated
JOINT_DRAWS = 20_000
VERY_MANY = 1e9  # degrees of freedom of a noise that is known
MANY = 60  # replicates from which the median's variance is that of very many


@dataclass(frozen=True)
class Interval:
    """A median with its 95 % interval and how that was found; no interval where a single value is all there is."""

    median: float
    low: float | None
    high: float | None
    n: int
    method: Method
    error: float | None = None  # standard error of the logarithm between replicates; None from a single trial
    freedom: float | None = None  # its degrees of freedom

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends, if there are any."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def median_intervals(
    groups: Sequence[Array], within: Sequence[tuple[float, float]], level: float = 0.95
) -> list[Interval]:
    """An interval for each group of replicates; `within` is used for a group of one, NaN where that has none."""
    from scipy.special import stdtrit

    medians, variances, sizes = _moments(groups)
    noise = moderated(variances, (sizes - 1).astype(np.float64))
    factors = {n: median_variance(n) for n in np.unique(sizes).tolist()}
    errors = np.sqrt(np.nan_to_num(noise.variance) * np.array([factors[n] for n in sizes.tolist()]))
    freedom = np.maximum(noise.freedom, 1.0)
    half = stdtrit(freedom, (1 + level) / 2) * errors
    columns = np.exp([medians, medians - half, medians + half]).tolist(), errors.tolist(), freedom.tolist()
    intervals = []
    for at, (n, own) in enumerate(zip(sizes.tolist(), noise.own.tolist(), strict=True)):
        (median, low, high), error, df = (column[at] for column in columns[0]), columns[1][at], columns[2][at]
        if n == 1:
            intervals.append(_alone(median, within[at]))
        else:
            intervals.append(Interval(median, low, high, n, "t" if own else "moderated", error, df))
    return intervals


def _moments(groups: Sequence[Array]) -> tuple[Array, Array, NDArray[np.int64]]:
    """Median and variance of the logarithms of each group, and how many there are."""
    sizes = np.array([len(group) for group in groups], dtype=np.int64)
    medians, variances = np.zeros(len(groups)), np.zeros(len(groups))
    # Groups of one size are done at once: a study may have tens of thousands of configurations.
    for n in np.unique(sizes).tolist():
        places = np.flatnonzero(sizes == n)
        logs = np.log(np.stack([groups[at] for at in places.tolist()]))
        medians[places] = np.median(logs, axis=1)
        variances[places] = logs.var(axis=1, ddof=1) if n > 1 else 0.0
    return medians, variances, sizes


def _alone(median: float, within: tuple[float, float]) -> Interval:
    """A single trial: what its iterations tell, which says nothing about another process."""
    if not np.isfinite(within).all():
        return Interval(median, None, None, 1, "none")
    return Interval(median, *within, 1, "within-trial")


def ratio_error(first: Interval, second: Interval, pool: float = np.inf) -> tuple[float, float] | None:
    """Standard error and degrees of freedom of the log ratio of two medians; None where one is a single trial."""
    if first.error is None or second.error is None or first.freedom is None or second.freedom is None:
        return None
    squares = np.array([first.error**2, second.error**2])
    freedom = joint_freedom(squares, np.array([first.freedom, second.freedom]), pool)
    return float(np.sqrt(squares.sum())), float(freedom)


@lru_cache(maxsize=256)
def median_variance(n: int) -> float:
    """The variance of the median of n standard normal values, from the density of the middle one or two.

    >>> [round(median_variance(n), 3) for n in (1, 2, 3, 5)]
    [1.0, 0.5, 0.449, 0.287]
    """
    from scipy.special import log_ndtr

    if n > MANY:
        return float(np.pi / 2 / n)
    apart = np.linspace(0.0, 6.0, 241)[None, :] if n % 2 == 0 else np.zeros((1, 1))
    middle = np.linspace(-6.0, 6.0, 481)[:, None]
    low, high, others = middle - apart, middle + apart, (n - 1) // 2
    logs = others * (log_ndtr(low) + log_ndtr(-high)) - (low**2 if n % 2 else low**2 + high**2) / 2
    density = np.exp(logs - logs.max())
    density[:, 0] /= 2  # by the trapezoidal rule in `apart`
    return float((middle**2 * density).sum() / density.sum())


def simultaneous_quantile(gradients: Array, df: float, level: float = 0.95) -> float:
    """How many standard errors hold all of several estimates at once: the quantile of their largest |t|.

    `gradients` has a row per estimate, over independent unit normals; all share one estimate of the noise. Hothorn,
    Bretz and Westfall, Simultaneous inference in general parametric models, Biometrical Journal 50 (2008); here by
    simulation with a fixed seed.
    """
    from scipy.special import stdtrit

    lengths = np.linalg.norm(gradients, axis=1)
    rows = gradients[lengths > 0] / lengths[lengths > 0, None]
    single = float(stdtrit(df, (1 + level) / 2))
    if len(rows) < 2:
        return single
    if len(rows) > MOST_JOINT:  # Šidák's bound is close to it for so many
        return float(stdtrit(df, (1 + level ** (1 / len(rows))) / 2))
    rng = np.random.default_rng([len(rows), round(df)])
    largest = np.abs(rng.standard_normal((JOINT_DRAWS, rows.shape[1])) @ rows.T).max(axis=1)
    spread = np.sqrt(rng.chisquare(df, JOINT_DRAWS) / df)
    return max(single, float(np.quantile(largest / spread, level)))


def separate_quantiles(gradients: Array, freedom: Array, level: float = 0.95) -> Array:
    """The same for estimates that each have their own noise: what lies beyond is what normal ones would have there."""
    from scipy.special import ndtr, stdtrit

    beyond = float(ndtr(-simultaneous_quantile(gradients, VERY_MANY, level)))
    return np.asarray(-stdtrit(freedom, beyond))
