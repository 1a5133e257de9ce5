"""Whether a model misses what was measured by far more than the measurements differ among themselves, and along what.

Replicates tell how much is noise. If the error of the fit is well above it, the form of the model is wrong; the factor
whose values explain most of the residuals says where it bends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.models.judging.selection import metrics, noise_floor

Array = np.ndarray
# The error of a right model stays near that of the replicates; this many times of it, and points, are far above.
FAR_ABOVE, POINTS = 2.5, 2.0
FEWEST_CONFIGURATIONS = 5
# A factor is named if its values explain at least this share of the residuals' variance, beyond chance.
LEAST_SHARE = 0.15


@dataclass(frozen=True)
class Misfit:
    """The error of the fit and of replicates in per cent, and the factor along which residuals bend (empty: none)."""

    error: float
    noise: float
    factor: str

    @property
    def sentence(self) -> str:
        """What is wrong, in words."""
        along = f"; its residuals bend along {self.factor}" if self.factor else ""
        return (
            f"the model misses the rows it was fitted to by {self.error:.1f} %, replicates differ by {self.noise:.1f} %"
            f"{along}: its form does not fit these data"
        )


def misfit(frame: pd.DataFrame, y: Array, predicted: Array) -> Misfit | None:
    """What is wrong with a fit; None where it is near the noise, or replicates are too few to tell the noise."""
    noise = noise_floor(frame, y)
    if noise is None or noise.configurations < FEWEST_CONFIGURATIONS:
        return None
    error = metrics(y, predicted).mape
    if not error > max(FAR_ABOVE * noise.mape, noise.mape + POINTS):
        return None
    return Misfit(error, noise.mape, _bending_factor(frame, _residuals(y, predicted)))


def _residuals(y: Array, predicted: Array) -> Array:
    """In logarithms where all is positive."""
    positive = np.min(y) > 0 and np.min(predicted) > 0
    return np.asarray(np.log(y / predicted) if positive else y - predicted)


def _bending_factor(frame: pd.DataFrame, residuals: Array) -> str:
    shares = {str(column): explained(frame[column].to_numpy(), residuals) for column in frame.columns}
    best = max(shares, key=lambda column: shares[column], default="")
    return best if best and shares[best] >= LEAST_SHARE else ""


def explained(values: Array, residuals: Array) -> float:
    """The share of the residuals' variance between the values of a factor, less what chance would give (adjusted R²).

    >>> round(explained(np.array([1, 1, 2, 2, 4, 4]), np.array([1.0, 1.1, -2.0, -2.1, 1.0, 1.1])), 2)
    1.0
    """
    groups = pd.Series(residuals).groupby(pd.Series(values).astype(str).to_numpy())
    between, rows = groups.ngroups, len(residuals)
    total = float(np.var(residuals))
    if between < 2 or between >= rows or total == 0:
        return 0.0
    within = float(np.mean((residuals - groups.transform("mean").to_numpy()) ** 2))
    return 1 - within / total * (rows - 1) / (rows - between)
