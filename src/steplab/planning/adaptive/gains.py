"""What a further trial is worth for an aim: by how much it narrows what is known, or improves on the best."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from scipy import stats

from steplab.planning.adaptive.outlook import Outlook

Array = np.ndarray


class Gains(ABC):
    """What a further trial is worth for an aim; `drawn` is how many candidates are looked at for each trial."""

    drawn: int | None = None  # all of them

    @abstractmethod
    def of(self, outlook: Outlook, free: Array) -> Array:
        """The gain of measuring each candidate."""

    @abstractmethod
    def uncertainty(self, outlook: Outlook) -> float:
        """What is left to learn, as a relative number."""

    @abstractmethod
    def told(self, uncertainty: float) -> str:
        """Where the study stands, in words."""

    def reached(self, uncertainty: float, tolerance: float) -> str:
        """That it has reached its aim, in words."""
        return f"ended: {self.told(uncertainty)}, within the tolerance of {tolerance:.2%}"

    @abstractmethod
    def why(self, outlook: Outlook, row: int, gain: float, known: bool) -> str:
        """Why a candidate is chosen, in words."""


class Reduction(Gains):
    """The mean variance of what is to be known, and by how much a trial reduces it (Cohn: Neural Networks 9, 1996)."""

    def __init__(self, subject: str, drawn: int | None = None) -> None:
        self.subject, self.drawn = subject, drawn

    def of(self, outlook: Outlook, free: Array) -> Array:
        """The reduction of the mean variance."""
        cross = (outlook.cross[:, free] ** 2).mean(0)
        return np.asarray(cross / (outlook.variance[free] + outlook.surrogate.noise))

    def uncertainty(self, outlook: Outlook) -> float:
        """The root of the mean variance, as a relative error."""
        return _relative(float(outlook.doubt.mean()))

    def told(self, uncertainty: float) -> str:
        """Where the study stands."""
        return f"{self.subject} known to {uncertainty:.1%}"

    def why(self, outlook: Outlook, row: int, gain: float, known: bool) -> str:
        """By how much it narrows what is known."""
        before = float(outlook.doubt.mean())
        told = f"{_relative(before):.2%} to {_relative(max(before - gain, 0.0)):.2%}"
        if not known:
            return f"narrows the mean doubt from {told}"
        noise = math.sqrt(outlook.surrogate.noise)
        return f"measured again: noise of {noise:.1%} limits here; narrows the doubt from {told}"


def _relative(variance: float) -> float:
    return math.expm1(min(20.0, math.sqrt(variance)))


class Improvement(Gains):
    """How much faster than the best so far a candidate may be (Jones and others: J. Global Optimization 13, 1998)."""

    def _expected(self, outlook: Outlook, rows: Array) -> tuple[Array, Array, Array]:
        incumbent = float(outlook.mean[outlook.measured].min())
        mean, spread = outlook.mean[rows], np.sqrt(outlook.variance[rows])
        z = (incumbent - mean) / spread
        return (incumbent - mean) * stats.norm.cdf(z) + spread * stats.norm.pdf(z), stats.norm.cdf(z), mean - incumbent

    def of(self, outlook: Outlook, free: Array) -> Array:
        """The expected improvement, in logarithms."""
        return np.asarray(np.maximum(self._expected(outlook, free)[0], 1e-15))

    def uncertainty(self, outlook: Outlook) -> float:
        """The largest improvement that can still be expected."""
        return float(np.max(self._expected(outlook, np.arange(len(outlook.mean)))[0]))

    def told(self, uncertainty: float) -> str:
        """Where the study stands."""
        return f"a further trial is expected to find a configuration faster by {uncertainty:.2%} at most"

    def why(self, outlook: Outlook, row: int, gain: float, known: bool) -> str:
        """The chance that it is the best."""
        _, chance, above = (float(values[0]) for values in self._expected(outlook, np.array([row])))
        again = f"measured again: noise of {math.sqrt(outlook.surrogate.noise):.1%} limits; " if known else ""
        return f"{again}faster than the best so far with {chance:.0%} (expected {math.expm1(above):+.1%})"
