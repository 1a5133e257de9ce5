"""Which law of growth to extrapolate with: the usual one, unless another clearly extrapolates better inside.

Waiting and collectives mostly grow with the logarithm of the workers. A server that all of them send to, or a node
whose memory they share, makes time grow in proportion; from few counts of workers the fit itself cannot tell, but how
well each law predicts the rows beyond inner borders can.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from steplab.models.formulas import physics
from steplab.models.formulas.physics import StepLaw
from steplab.models.held_out.extrapolation import Border, inner_borders, thinned

Array = np.ndarray
# Another law must err less than the usual one by this share, and by one standard error over the borders.
CLEARLY = 0.3
MOST_ROWS = 200
# One border has no standard error.
FEWEST_BORDERS = 2
WORST_MISS = 1.0  # in logarithms


def best_extrapolating(law: StepLaw, frame: pd.DataFrame, y: Array) -> StepLaw:
    """The law itself, or its linear or contended kin."""
    if not law.parts.workers:
        return law
    few, target, _ = thinned(frame, y, None, MOST_ROWS)
    laws = [law, replace(law, linear=True), replace(law, contended=True)]
    borders = inner_borders(few, law.parts.workers, len(laws[-1].names) + 1)
    if len(borders) < FEWEST_BORDERS:
        return law
    errors = np.array([[_error(kin, few, target, border) for border in borders] for kin in laws])
    return laws[_clearly_best(errors)]


def _error(law: StepLaw, frame: pd.DataFrame, y: Array, border: Border) -> float:
    """The mean logarithmic error of the rows beyond a border."""
    at = law.inputs(frame)
    theta = physics.fit_law(law, at.take(border.train), y[border.train], quick=True)
    miss = np.abs(np.log(physics.step_time(law, theta, at.take(border.test)) / y[border.test]))
    return float(np.mean(np.minimum(miss, WORST_MISS)))


def _clearly_best(errors: Array) -> int:
    """The row with the least mean, if it is clearly less than the first, at the middle border as on average.

    >>> _clearly_best(np.array([[0.10, 0.12], [0.09, 0.12], [0.02, 0.03]]))
    2
    >>> _clearly_best(np.array([[0.05, 0.30, 0.05], [0.05, 0.05, 0.05]]))
    0
    """
    best = int(np.argmin(errors.mean(axis=1)))
    gains = errors[0] - errors[best]
    doubt = float(np.std(gains, ddof=1)) / math.sqrt(len(gains))
    # A single odd border moves the mean, not the median.
    everywhere = np.median(gains) > CLEARLY * np.median(errors[0])
    return best if everywhere and np.mean(gains) > max(CLEARLY * errors[0].mean(), doubt) else 0
