"""What a model's intervals say about a wish: the probability that a measurement keeps below a bound.

An interval at level p leaves (1−p)/2 of the measurements above it. Its ends at many levels are therefore quantiles of
what a new measurement will be, and a probability is read off between them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from steplab.models.base import PerformanceModel

LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
# So far out nobody has seen enough rows: a probability is never said to be surer than this.
SUREST = 0.995
# An interval that is wider than this factor to either side tells nothing that could be planned with.
WIDEST = 10.0
# Nor can what lies this many times beyond the measured range, whatever the interval says: laws change on such a way.
FARTHEST = 8.0
Array = np.ndarray


def quantiles(model: PerformanceModel, frame: pd.DataFrame) -> tuple[Array, Array]:
    """Probabilities, and for each configuration the natural logarithms of the times that are not exceeded with them."""
    centre = np.log(np.maximum(model.predict(frame), np.finfo(float).tiny))
    lows, highs = [], []
    for level in LEVELS[1:]:
        low, high = model.predict_interval(frame, level)
        lows.append(np.log(low))
        highs.append(np.log(high))
    below = [(1 - level) / 2 for level in LEVELS[1:]]
    at = np.array([*below[::-1], 0.5, *(1 - p for p in below)])
    logs = np.vstack([*lows[::-1], centre, *highs]).T
    return at, np.maximum.accumulate(logs, axis=1)


def chance_below(model: PerformanceModel, frame: pd.DataFrame, bounds: Array) -> Array:
    """The probability that a measurement of each configuration stays at or below its bound; NaN where nobody knows."""
    at, logs = quantiles(model, frame)
    wanted = np.log(np.maximum(bounds, np.finfo(float).tiny))
    told = [_read(row, at, bound) for row, bound in zip(logs, wanted, strict=True)]
    return np.where(bounds > 0, np.array(told), 0.0)


def _read(logs: Array, at: Array, bound: float) -> float:
    if not np.isfinite(logs).all():
        return float("nan")
    if bound >= logs[-1]:
        return SUREST
    return 1 - SUREST if bound <= logs[0] else float(np.interp(bound, logs, at))


def half_width(model: PerformanceModel, frame: pd.DataFrame, level: float = 0.9) -> Array:
    """The logarithm of the factor by which the interval goes up and down."""
    low, high = model.predict_interval(frame, level)
    return np.asarray((np.log(high) - np.log(low)) / 2)


def useful(model: PerformanceModel, frame: pd.DataFrame) -> Array:
    """Where an interval can be given that is narrow enough to plan with, not far beyond what was measured."""
    half = half_width(model, frame)
    near = np.isfinite(half) & (half <= np.log(WIDEST))
    for name, (low, high) in model.range_.items():
        if low > 0:
            values = frame[name].to_numpy(float)
            near &= (values <= high * FARTHEST) & (values >= low / FARTHEST)
    return np.asarray(near)
