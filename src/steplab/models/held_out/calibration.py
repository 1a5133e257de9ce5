"""Which kind of interval a target has, and a saved one read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steplab.models.held_out.intervals import Conformal, calibrate
from steplab.models.held_out.ratio_intervals import KIND, RatioConformal, calibrate_ratios

Interval = Conformal | RatioConformal


def calibrated(predicted: np.ndarray, measured: np.ndarray, groups: np.ndarray | None = None) -> Interval:
    """Intervals of ratios where all that was measured is positive, else of differences."""
    law = calibrate_ratios if np.min(measured) > 0 else calibrate
    return law(predicted, measured, groups)


def interval_from(document: Mapping[str, Any]) -> Interval:
    """A saved interval of either kind."""
    law = RatioConformal if document.get("kind") == KIND else Conformal
    return law.from_document(document)
