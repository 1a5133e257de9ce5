"""A few trials of several hosts correct a prediction: one factor on compute, one on wires."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from steplab.planning.network.compute import Compute
from steplab.planning.network.step import MODEL_DOUBT, Calibration, Layout, Method, predict_step
from steplab.planning.network.wires import Wires

PRIOR = 0.25  # relative: how far the factors are believed to be from 1 before anything is seen
NOISE = 0.05  # relative, of a trial's median, at least


@dataclass(frozen=True)
class Seen:
    """A trial of several hosts: what was known of it beforehand, and its measured iteration."""

    compute: Compute
    wires: Wires
    layout: Layout
    seconds: float
    noise: float = 0.0  # relative, of its median: a trial that is hardly known says little


def calibrated(seen: Sequence[Seen]) -> Calibration:
    """The factors that explain the trials best; few trials move them little."""
    if not seen:
        return Calibration()

    def errors(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        method = Method(calibration=Calibration(*map(math.exp, logs)))
        ratios = [predict_step(s.compute, s.wires, s.layout, method).seconds / s.seconds for s in seen]
        misses = [math.log(ratio) / max(NOISE, s.noise) for ratio, s in zip(ratios, seen, strict=True)]
        return np.array([*misses, *(log / PRIOR for log in logs)])

    compute, wires = least_squares(errors, np.zeros(2), diff_step=[1e-3, 1e-3]).x
    return Calibration(math.exp(compute), math.exp(wires), MODEL_DOUBT)
