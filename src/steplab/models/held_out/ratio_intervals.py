"""Prediction intervals of positive targets, on the scale of ratios: ŷ/e^h to ŷ·e^h, which never reach zero.

The scores are |ln y − ln ŷ| of rows that the model had not seen, times a power of the prediction (0, ½ or 1, whichever
makes them depend on it least: errors may be shares of a time, or a fixed part of a second). h is their quantile with
the finite-sample correction of conformal prediction (`intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from steplab.models.held_out.intervals import LEAST_HALF, POWERS, conformal_quantile, dependences, thinned_scores

KIND = "ratio"
# e^30 is wider than any time that could be measured, and still a number.
MOST_HALF = 30.0


@dataclass(frozen=True)
class RatioConformal:
    """Sorted scores of held-out rows; `smallest`, `typical` and `largest` are the measured values' ends and median.

    `rows` counts independent rows: replicates of one configuration count once.
    """

    power: float
    typical: float
    smallest: float
    largest: float
    rows: int
    scores: tuple[float, ...]

    def bounds(self, predicted: np.ndarray, level: float, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The interval around each prediction, its logarithmic half width multiplied by `spread`; NaN where that is."""
        half = np.minimum(self.half_width(predicted, level) * spread, MOST_HALF)
        # A straight line may predict a negative time; no interval of a time holds that.
        centre = np.maximum(predicted, self.floor)
        low = centre * np.exp(-half)
        return np.where(predicted > 0, np.minimum(low, predicted), low), centre * np.exp(half)

    @property
    def floor(self) -> float:
        """Predictions below a tenth of the smallest measured value are taken as that."""
        return 0.1 * self.smallest

    def half_width(self, predicted: np.ndarray, level: float) -> np.ndarray:
        """Half the width of the interval in logarithms, at each prediction."""
        return np.asarray(self.quantile(level) / self._size(predicted) ** self.power)

    def quantile(self, level: float) -> float:
        """The half width in logarithms of a typical value."""
        return max(conformal_quantile(self.scores, self.rows, level), LEAST_HALF)

    @property
    def typical_half(self) -> float:
        """The half width of a 90 % interval in logarithms, at a typical value."""
        return self.quantile(0.9)

    def scores_of(self, predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
        """How far measured values lie from predictions, in the unit of `scores`."""
        ratio = np.abs(np.log(measured / np.maximum(predicted, self.floor)))
        return np.asarray(ratio * self._size(predicted) ** self.power)

    def _size(self, predicted: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(predicted, self.smallest, self.largest) / self.typical)

    def to_document(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "kind": KIND, "power": self.power, "typical": self.typical, "smallest": self.smallest,
            "largest": self.largest, "rows": self.rows, "scores": list(self.scores),
        }  # fmt: skip

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> RatioConformal:
        """The inverse of `to_document`."""
        scores = tuple(float(score) for score in document["scores"])
        power, typical, smallest, largest = (
            float(document[name]) for name in ("power", "typical", "smallest", "largest")
        )
        interval = cls(power, typical, smallest, largest, int(document["rows"]), scores)
        finite = all(map(math.isfinite, (power, typical, smallest, largest, *scores)))
        if (
            not scores
            or not finite
            or not 0 <= power <= 1
            or min(typical, smallest, largest) <= 0
            or interval.rows < 1
            or list(scores) != sorted(scores)
        ):
            raise ValueError("the interval's scores are damaged")
        return interval


def calibrate_ratios(predicted: np.ndarray, measured: np.ndarray, groups: np.ndarray | None = None) -> RatioConformal:
    """Scores from predictions of rows that the predicting model had not seen; all measured values are positive."""
    smallest, typical, largest = float(np.min(measured)), float(np.median(measured)), float(np.max(measured))
    seen = np.isfinite(predicted)
    predicted, measured = predicted[seen], measured[seen]
    rows = len(predicted) if groups is None else len(np.unique(groups[seen]))
    laws = [RatioConformal(power, typical, smallest, largest, rows, (0.0,)) for power in POWERS]
    scored = [law.scores_of(predicted, measured) for law in laws]
    best = int(np.argmin(dependences(scored, predicted)))
    return RatioConformal(POWERS[best], typical, smallest, largest, rows, thinned_scores(scored[best]))
