"""A number with its doubt, as plans give it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.models.base import PerformanceModel

Array = np.ndarray


@dataclass(frozen=True)
class Estimate:
    """A predicted value and the ends between which a measurement lies with 90 %."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float, added: float = 0.0) -> Estimate:
        """The same in another unit, or of so many steps and a fixed part."""
        return Estimate(*(added + factor * end for end in (self.value, self.low, self.high)))


def estimates(model: PerformanceModel, frame: pd.DataFrame, level: float = 0.9) -> list[Estimate]:
    """What a model predicts of each configuration."""
    low, high = model.predict_interval(frame, level)
    values = zip(model.predict(frame), low, high, strict=True)
    return [Estimate(*map(float, row)) for row in values]


def ratio(over: Estimate, under: Estimate, factor: float = 1.0) -> Estimate:
    """A ratio of two estimates; their doubts are taken as independent, which is the careful side for one model."""
    value = factor * over.value / under.value
    half = math.hypot(_half(over), _half(under))
    return Estimate(value, value * math.exp(-half), value * math.exp(half))


def _half(estimate: Estimate) -> float:
    return (math.log(estimate.high) - math.log(estimate.low)) / 2
