"""On which scale the noise is even: ratios (log) or seconds, by the profile of the Box-Cox power.

Box and Cox, Journal of the Royal Statistical Society B 26 (1964) 211-252. The likelihood is that of the residuals'
degrees of freedom, because a design may have a mean for every few trials.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.effects.findings import Scale, ScaleName

Array = NDArray[np.float64]
POWERS = np.round(np.arange(-2.0, 2.01, 0.1), 1)
HALF_CHI_SQUARE = 1.9207  # half the 95 % quantile of chi-square with one degree of freedom
FEWEST_DF = 6
EXACT = 1e-9  # relative spread below which there is no noise


def choose_scale(seconds: Array, left: Callable[[Array], float], df: int) -> Scale:
    """The scale for times; `left` gives the residual sum of squares of a response."""
    logs = np.log(seconds)
    if df < FEWEST_DF:
        return Scale("log", None, None, None, "times multiply, and there are too few trials to judge otherwise")
    if np.sqrt(left(logs - logs.mean()) / df) < EXACT:
        return Scale("log", None, None, None, "times multiply, and there is no noise to judge by")
    profile = np.array([-df / 2 * np.log(left(_powered(logs, power))) for power in POWERS])
    inside = POWERS[profile >= profile.max() - HALF_CHI_SQUARE]
    best, low, high = float(POWERS[profile.argmax()]), float(inside.min()), float(inside.max())
    return Scale(_nearer(best, low, high), best, low, high, _why(best, low, high))


def _powered(logs: Array, power: float) -> Array:
    """The Box-Cox transform around the geometric mean, in units of it."""
    centred = logs - logs.mean()
    powered: Array = np.expm1(power * centred) / power if power else centred
    return powered


def _nearer(best: float, low: float, high: float) -> ScaleName:
    """Ratios unless the profile rules them out and seconds are nearer to it."""
    return "log" if low <= 0 <= high or best <= 0.5 else "seconds"


def _why(best: float, low: float, high: float) -> str:
    where = f"the Box-Cox power lies between {low:g} and {high:g}"
    if low <= 0 <= high:
        return f"{where}: noise is a share of the time, so effects multiply"
    if low <= 1 <= high and best > 0.5:
        return f"{where}: noise is the same number of seconds everywhere, so effects add"
    return f"{where}: neither ratios (0) nor seconds (1) fit perfectly, this is the nearer"
