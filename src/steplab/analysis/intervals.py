"""Confidence intervals of medians over replicates, from few replicates and many configurations.

Times multiply, so everything is on the log scale. Three replicates alone say little about their own spread, but a
study has many configurations: the residuals of all of them are pooled and resampled (a residual bootstrap; Davison and
Hinkley, Bootstrap Methods and their Application, §6.2.3), which gives honest intervals even for three. A configuration
that spreads far more than the others, or a study with few residuals, gets a t interval of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Method = Literal["pooled-bootstrap", "t", "within-trial"]
DRAWS = 4000
FEWEST_RESIDUALS = 12  # degrees of freedom below which a pool says too little
MOST_JOINT = 300  # estimates whose joint distribution is simulated
JOINT_DRAWS = 20_000
UNLIKE = 3.0  # a configuration whose spread is that many times the pool's is not of the pool


@dataclass(frozen=True)
class Interval:
    """A median with its confidence interval and how that was found."""

    median: float
    low: float
    high: float
    n: int
    method: Method

    def differs_from(self, other: Interval) -> bool:
        """Whether the two intervals leave no doubt that the medians differ."""
        return self.low > other.high or self.high < other.low


def median_intervals(
    groups: Sequence[Array], within: Sequence[tuple[float, float]], level: float = 0.95
) -> list[Interval]:
    """An interval for each group of replicates; `within` is used for a group of one."""
    sizes = np.array([len(group) for group in groups], dtype=int)
    # Groups of one size are done at once: a study may have tens of thousands of configurations.
    places = {int(n): np.flatnonzero(sizes == n).tolist() for n in np.unique(sizes)}
    logs = {n: np.log(np.stack([groups[at] for at in own])) for n, own in places.items()}
    residuals = _pool(logs)
    freedom = int((sizes - 1).sum())
    made: list[Interval | None] = [None] * len(groups)
    for n, values in logs.items():
        inside = [within[at] for at in places[n]]
        for at, interval in zip(places[n], _of_size(n, values, inside, residuals, freedom, level), strict=True):
            made[at] = interval
    return [interval for interval in made if interval is not None]


def simultaneous_quantile(gradients: Array, df: int, level: float = 0.95) -> float:
    """How many standard errors hold all of several estimates at once: the quantile of their largest |t|.

    `gradients` has a row per estimate, over independent unit normals. Hothorn, Bretz and Westfall, Simultaneous
    inference in general parametric models, Biometrical Journal 50 (2008); here by simulation with a fixed seed.
    """
    from scipy.stats import t

    lengths = np.linalg.norm(gradients, axis=1)
    rows = gradients[lengths > 0] / lengths[lengths > 0, None]
    single = float(t.ppf((1 + level) / 2, df))
    if len(rows) < 2:
        return single
    if len(rows) > MOST_JOINT:  # Šidák's bound is close to it for so many
        return float(t.ppf((1 + level ** (1 / len(rows))) / 2, df))
    rng = np.random.default_rng([len(rows), df])
    largest = np.abs(rng.standard_normal((JOINT_DRAWS, rows.shape[1])) @ rows.T).max(axis=1)
    spread = np.sqrt(rng.chisquare(df, JOINT_DRAWS) / df)
    return max(single, float(np.quantile(largest / spread, level)))


def _of_size(
    n: int, logs: Array, within: list[tuple[float, float]], residuals: Array, freedom: int, level: float
) -> list[Interval]:
    """The intervals of groups of n replicates each."""
    if n == 1:
        pairs = zip(np.exp(logs[:, 0]).tolist(), within, strict=True)
        return [Interval(middle, *inside, n, "within-trial") for middle, inside in pairs]
    middles, spreads = np.median(logs, axis=1), np.std(logs, axis=1, ddof=1)
    pooled = float(np.sqrt(np.mean(residuals**2)))
    alone = (spreads > UNLIKE * max(pooled, 1e-12)) | (freedom < FEWEST_RESIDUALS)
    low, high = _quantiles(residuals, n, level)
    half = _student_half(spreads, n, level)
    below, above = np.where(alone, half, high), np.where(alone, half, -low)
    edges = np.exp([middles, middles - below, middles + above])
    methods: list[Method] = ["t" if one else "pooled-bootstrap" for one in alone]
    return [
        Interval(middle, min(bottom, middle), max(top, middle), n, method)
        for middle, bottom, top, method in zip(*edges.tolist(), methods, strict=True)
    ]


def _pool(logs: Mapping[int, Array]) -> Array:
    """Residuals of all groups with replicates, inflated to the spread they stand for."""
    parts = [
        ((values - values.mean(axis=1, keepdims=True)) * np.sqrt(n / (n - 1))).ravel()
        for n, values in logs.items()
        if n > 1
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _quantiles(residuals: Array, n: int, level: float) -> tuple[float, float]:
    """Where the median of n resampled residuals lies."""
    rng = np.random.default_rng([n, residuals.size])
    medians = np.median(rng.choice(residuals, size=(DRAWS, n)), axis=1)
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _student_half(spreads: Array, n: int, level: float) -> Array:
    """Half the width of the t interval of each median."""
    from scipy.stats import t

    # The median of normal values spreads up to sqrt(pi/2) times as far as their mean.
    error = spreads * np.sqrt((np.pi / 2 if n > 2 else 1.0) / n)
    return np.asarray(float(t.ppf((1 + level) / 2, n - 1)) * error)
