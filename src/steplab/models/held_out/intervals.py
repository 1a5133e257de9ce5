"""Prediction intervals from held-out residuals (conformal prediction), for targets that may be zero or negative.

Positive ones have intervals of ratios (`ratio_intervals`), and models saved before had these for all.

The half width is a quantile of the scores |y − ŷ| / |ŷ|^g of rows that the model had not seen (Vovk,
Gammerman and Shafer: Algorithmic Learning in a Random World, 2005; cross-conformal as in Barber and others:
Predictive inference with the jackknife+, Annals of Statistics 49, 2021). g is 0 (absolute), 1/2 or 1
(relative): the one whose scores depend least on the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from steplab.core.errors import ModelError

POWERS = (0.0, 0.5, 1.0)
MOST_SCORES = 501
# Noise-free rows have no width of their own; what extrapolation adds is measured in this one.
LEAST_HALF = 1e-6


@dataclass(frozen=True)
class Conformal:
    """Sorted scores of held-out rows, and the power of the prediction that scales them.

    `rows` counts independent rows: replicates of one configuration count once. With `positive` nothing at or
    below zero was measured, and no interval reaches below it.
    """

    power: float
    floor: float
    rows: int
    scores: tuple[float, ...]
    positive: bool = False

    def bounds(self, predicted: np.ndarray, level: float, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The interval around each prediction, widened by a factor for each."""
        half = self.half_width(predicted, level) * spread
        low, high = predicted - half, predicted + half
        # What is positive has no interval below zero, whatever a model extrapolates to.
        return (np.maximum(low, 0.0), np.maximum(high, 0.0)) if self.positive else (low, high)

    def half_width(self, predicted: np.ndarray, level: float) -> np.ndarray:
        """Half the width of the interval around each prediction."""
        return self.quantile(level) * scale_of(predicted, self.power, self.floor)

    def quantile(self, level: float) -> float:
        """The half width of a prediction of size 1."""
        return conformal_quantile(self.scores, self.rows, level)

    @property
    def typical_half(self) -> float:
        """The half width of a 90 % interval as a share of a typical value, which is ten times the floor."""
        typical = 10 * self.floor
        return max(self.quantile(0.9) * float(typical ** (self.power - 1)), LEAST_HALF)

    def scores_of(self, predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
        """How far measured values lie from predictions, in the unit of `scores`."""
        return np.asarray(np.abs(measured - predicted) / scale_of(predicted, self.power, self.floor))

    def to_document(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "power": self.power, "floor": self.floor, "rows": self.rows, "scores": list(self.scores),
            "positive": self.positive,
        }  # fmt: skip

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Conformal:
        """The inverse of `to_document`."""
        scores = tuple(float(score) for score in document["scores"])
        power, floor = float(document["power"]), float(document["floor"])
        conformal = cls(power, floor, int(document["rows"]), scores, bool(document["positive"]))
        numbers = (conformal.power, conformal.floor, *scores)
        if (
            not scores
            or not all(map(math.isfinite, numbers))
            or conformal.rows < 1
            or list(scores) != sorted(scores)
            or not 0 <= power <= 1
        ):
            raise ValueError("the interval's scores are damaged")
        return conformal


def conformal_quantile(scores: tuple[float, ...], rows: int, level: float) -> float:
    """The quantile of sorted scores of that many independent rows, corrected for their number."""
    if not 0 < level < 1:
        raise ModelError(f"the level of an interval is {level}", hint="it lies between 0 and 1")
    rank = math.ceil((rows + 1) * level)
    if rank <= rows:
        # `method="higher"` would lose the finite-sample guarantee on thinned scores by less than 1/500.
        return float(np.quantile(scores, (rank - 1) / max(rows - 1, 1)))
    # Too few rows for the distribution-free guarantee: Student's t for what is known of the spread.
    spread = math.sqrt(float(np.mean(np.square(scores))))
    return max(scores[-1], spread * float(stats.t.ppf((1 + level) / 2, max(rows - 1, 1))))


def scale_of(predicted: np.ndarray, power: float, floor: float) -> np.ndarray:
    """The size of errors that is expected at each prediction."""
    return np.asarray(np.maximum(np.abs(predicted), floor) ** power)


def dependences(scored: Sequence[np.ndarray], predicted: np.ndarray) -> list[float]:
    """The size of the rank correlation of each kind of scores with the predictions."""
    order = ranks(predicted) if np.ptp(predicted) else None
    return [
        0.0 if order is None or np.ptp(scores) == 0 else rank_correlation(ranks(scores), order) for scores in scored
    ]


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """The size of the correlation of two orders of the same rows."""
    rows, middle = len(first), (len(first) - 1) / 2
    return abs(float((first - middle) @ (second - middle)) / (rows * (rows**2 - 1) / 12))


def ranks(values: np.ndarray) -> np.ndarray:
    """The place of each value in their order, from 0."""
    places = np.empty(len(values))
    places[np.argsort(values, kind="stable")] = np.arange(len(values))
    return places


def floor_of(measured: np.ndarray) -> float:
    """Where relative errors stop to mean anything: a tenth of the typical target."""
    return 0.1 * float(np.median(np.abs(measured))) or float(np.max(np.abs(measured))) or 1.0


def best_power(residuals: np.ndarray, predicted: np.ndarray, floor: float) -> float:
    """The power of the prediction by which errors are scaled so that they depend on it least."""
    scored = [residuals / scale_of(predicted, power, floor) for power in POWERS]
    return POWERS[int(np.argmin(dependences(scored, np.abs(predicted))))]


def calibrate(predicted: np.ndarray, measured: np.ndarray, groups: np.ndarray | None = None) -> Conformal:
    """Scores from predictions of rows that the predicting model had not seen; rows of a group are not independent."""
    seen, positive = np.isfinite(predicted), bool(np.min(measured) > 0)
    predicted, measured = predicted[seen], measured[seen]
    residuals, floor = np.abs(measured - predicted), floor_of(measured)
    power = best_power(residuals, predicted, floor)
    scores = residuals / scale_of(predicted, power, floor)
    rows = len(scores) if groups is None else len(np.unique(groups[seen]))
    return Conformal(power, floor, rows, thinned_scores(scores), positive)


def thinned_scores(scores: np.ndarray) -> tuple[float, ...]:
    """The scores in order; of many, quantiles that stand for them."""
    ordered = np.sort(scores)
    if len(ordered) > MOST_SCORES:
        ordered = np.interp(np.linspace(0, len(ordered) - 1, MOST_SCORES), np.arange(len(ordered)), ordered)
    return tuple(ordered.tolist())


def excess(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """How far values lie outside of low..high, in widths of that range; logarithmic where all is positive.

    >>> excess(np.array([2.0, 8.0, 32.0]), 1.0, 8.0).round(3).tolist()
    [0.0, 0.0, 0.667]
    """
    if low > 0 and np.all(values > 0):
        values, low, high = np.log(values), math.log(low), math.log(high)
    width = high - low or max(abs(high), 1.0)
    return np.asarray(np.maximum(np.maximum(low - values, values - high), 0) / width)
