"""What a trial's native step times tell, of many trials at once: median, interval, spread, drift, outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steplab.core.autocorrelation import median_intervals
from steplab.core.order_statistics import SIGMA, median
from steplab.core.steadiness import Drift, drifts
from steplab.store.raw import together

Array = NDArray[np.float64]
OUTLIER_SIGMAS = 3.0
TIMER_SHARE = 0.01  # times closer together than this are equal, whatever the median deviation says


@dataclass(frozen=True)
class Series:
    """The step times of one trial in seconds, at least one, and what they tell."""

    times: Array
    median: float
    low: float  # of the median's 95 % interval, autocorrelation taken into account; NaN for a single time
    high: float
    spread: float  # robust standard deviation as a share of the median
    change: float  # by which share the second half's median lies above the first half's
    outliers: float  # share of the times
    drift: Drift


def series_of(times: Sequence[Array]) -> list[Series]:
    """The series of each trial's times."""
    return together(times, len, _alike)


def _alike(times: list[Array]) -> list[Series]:
    """Series of one length."""
    table = np.stack(times)
    typical = median(table)
    low, high = median_intervals(table)
    deviation = SIGMA * median(np.abs(table - typical[:, None]))
    half = table.shape[1] // 2
    first, second = median(table[:, :half]), median(table[:, half:])
    columns = (typical, low, high, _share(deviation, typical), _share(second - first, first), outlier_share(table))
    numbers = np.column_stack(columns).tolist()
    return [
        Series(sample, middle, least, most, spread, change, outliers, drift)
        for sample, (middle, least, most, spread, change, outliers), drift in zip(
            times, numbers, drifts(table), strict=True
        )
    ]


def _share(part: Array, whole: Array) -> Array:
    """Shares of what is not 0; 0 elsewhere."""
    known = np.nan_to_num(whole) > 0
    return np.where(known, part / np.where(known, whole, 1.0), 0.0)


def outlier_share(times: Array) -> Array:
    """Share of the times that lie more than three robust standard deviations from the median, on the log scale.

    >>> float(outlier_share(np.array([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 9.0])))
    0.125
    """
    logs = np.log(np.maximum(times, np.finfo(float).tiny))
    away = np.abs(logs - median(logs)[..., None])
    reach = np.maximum(OUTLIER_SIGMAS * SIGMA * median(away), TIMER_SHARE)
    return np.asarray((away > reach[..., None]).mean(axis=-1))
