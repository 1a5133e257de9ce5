"""Confidence intervals of medians over replicates, from few replicates and many configurations.

Times multiply, so everything is on the log scale. Three replicates alone say little about their own spread, but a
study has many configurations: the residuals of all of them are pooled and resampled (a residual bootstrap; Davison and
Hinkley, Bootstrap Methods and their Application, §6.2.3), which gives honest intervals even for three. A configuration
that spreads far more than the others, or a study with few residuals, gets a t interval of its own.
"""

from __future__ import annotations

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


def median_intervals(groups: list[Array], within: list[tuple[float, float]], level: float = 0.95) -> list[Interval]:
    """An interval for each group of replicates; `within` is used for a group of one."""
    logs = [np.log(group) for group in groups]
    residuals = _pool(logs)
    spread = float(np.sqrt(np.mean(residuals**2))) if residuals.size else 0.0
    freedom = sum(len(group) - 1 for group in groups)
    quantiles: dict[int, tuple[float, float]] = {}
    made = []
    for group, inside in zip(logs, within, strict=True):
        n = len(group)
        if n == 1:
            made.append(Interval(float(np.exp(group[0])), *inside, n, "within-trial"))
        elif freedom < FEWEST_RESIDUALS or float(np.std(group, ddof=1)) > UNLIKE * max(spread, 1e-12):
            made.append(_student(group, level))
        else:
            if n not in quantiles:
                quantiles[n] = _quantiles(residuals, n, level)
            made.append(_shifted(group, *quantiles[n]))
    return made


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


def _pool(logs: list[Array]) -> Array:
    """Residuals of all groups with replicates, inflated to the spread they stand for."""
    parts = [(group - group.mean()) * np.sqrt(len(group) / (len(group) - 1)) for group in logs if len(group) > 1]
    return np.concatenate(parts) if parts else np.empty(0)


def _quantiles(residuals: Array, n: int, level: float) -> tuple[float, float]:
    """Where the median of n resampled residuals lies."""
    rng = np.random.default_rng([n, residuals.size])
    medians = np.median(rng.choice(residuals, size=(DRAWS, n)), axis=1)
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _shifted(group: Array, low: float, high: float) -> Interval:
    middle = float(np.median(group))
    return Interval(*_exp(middle, middle - high, middle - low), len(group), "pooled-bootstrap")


def _student(group: Array, level: float) -> Interval:
    from scipy.stats import t

    middle, n = float(np.median(group)), len(group)
    # The median of normal values spreads up to sqrt(pi/2) times as far as their mean.
    error = float(np.std(group, ddof=1)) * np.sqrt((np.pi / 2 if n > 2 else 1.0) / n)
    half = float(t.ppf((1 + level) / 2, n - 1)) * error
    return Interval(*_exp(middle, middle - half, middle + half), n, "t")


def _exp(*values: float) -> tuple[float, float, float]:
    middle, low, high = (float(np.exp(value)) for value in values)
    return middle, min(low, middle), max(high, middle)
