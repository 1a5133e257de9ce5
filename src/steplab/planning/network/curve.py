"""Seconds by message size: pieces of latency + bytes/bandwidth, continuous and never falling.

Shapers let bursts pass and libraries change their algorithm with the size, so that one straight line is wrong by 15 to
37 % (docs/network.md). For given breaks the pieces' slopes are linear unknowns: non-negative least squares of relative
errors finds them, and a Bayesian information criterion chooses the breaks among the measured sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from steplab.planning.network.profile import Point

Array = NDArray[np.float64]
MOST_BREAKS = 3
MOST_CHOICES = 12  # sizes among which breaks are looked for: each three of them are tried
ROUNDS = 6  # of re-weighting; further ones change nothing that could be measured
SMALLEST = 1e-3  # ratio of a fit to what was measured that is told from none
LEAST_ERROR = 0.02  # relative: a fit closer than a median is known is not rewarded


@dataclass(frozen=True)
class Piece:
    """From a size on, seconds = latency + bytes/bandwidth."""

    from_bytes: float
    latency_s: float
    bytes_per_s: float  # infinite where more bytes take no longer


@dataclass(frozen=True)
class Curve:
    """The fitted pieces, and how far the measured points and their intervals lie from them."""

    starts: tuple[float, ...]  # of the pieces, the first at 0
    slopes: tuple[float, ...]  # seconds per byte, of each piece
    base: float  # seconds of an empty message
    sizes: tuple[float, ...]  # that were measured
    low: tuple[float, ...]  # low end as a share of the fit, at each size
    high: tuple[float, ...]

    def seconds(self, message_bytes: float) -> float:
        """Of a message; beyond the largest one measured the last piece goes on."""
        ends = (*self.starts[1:], math.inf)
        parts = zip(self.starts, ends, self.slopes, strict=True)
        return self.base + sum(slope * min(max(message_bytes - start, 0.0), end - start) for start, end, slope in parts)

    def ratios(self, message_bytes: float) -> tuple[float, float]:
        """The ends of the interval as shares of the value, between those of the sizes around it."""
        at = math.log(max(message_bytes, 1.0))
        where = np.log(self.sizes)
        return float(np.interp(at, where, self.low)), float(np.interp(at, where, self.high))

    @property
    def pieces(self) -> list[Piece]:
        """Each piece as latency and bandwidth."""
        pieces = []
        for start, slope in zip(self.starts, self.slopes, strict=True):
            latency = self.seconds(start) - slope * start
            pieces.append(Piece(start, latency, 1 / slope if slope else math.inf))
        return pieces


def fit_curve(points: Sequence[Point], most_breaks: int = MOST_BREAKS) -> Curve:
    """The pieces that describe the points best; no break makes one straight line."""
    sizes, seconds = np.array([float(point.bytes) for point in points]), np.array([point.seconds for point in points])
    inner = _thinned(sizes[1:-1].tolist())
    most = min(most_breaks, max(0, (len(points) - 2) // 2))
    choices = (breaks for count in range(most + 1) for breaks in itertools.combinations(inner, count))
    chosen = min(choices, key=lambda breaks: _criterion(sizes, seconds, breaks))
    return _curve(points, sizes, seconds, chosen)


def _thinned(sizes: list[float]) -> list[float]:
    """So many of the sizes, spread evenly."""
    if len(sizes) <= MOST_CHOICES:
        return sizes
    return [sizes[int(at)] for at in np.linspace(0, len(sizes) - 1, MOST_CHOICES).round()]


def _fitted(sizes: Array, seconds: Array, breaks: Sequence[float]) -> Array:
    """Base and slopes, none below 0, that make the errors as ratios least: half and double are equally wrong."""
    columns, fitted = _basis(sizes, breaks), seconds
    solution = np.zeros(columns.shape[1])
    for _ in range(ROUNDS):
        weights = 1 / np.sqrt(seconds * fitted)
        scale = np.maximum((columns * weights[:, None]).max(axis=0), 1e-300)  # bytes and ones differ by orders
        solution = nnls(columns * weights[:, None] / scale, seconds * weights)[0] / scale
        fitted = np.maximum(columns @ solution, SMALLEST * seconds)
    return np.asarray(solution)


def _basis(sizes: Array, breaks: Sequence[float]) -> Array:
    starts = np.array([0.0, *breaks])
    ends = np.array([*breaks, math.inf])
    passed = [np.clip(sizes, start, end) - start for start, end in zip(starts, ends, strict=True)]
    return np.column_stack([np.ones(len(sizes)), *passed])


def _criterion(sizes: Array, seconds: Array, breaks: Sequence[float]) -> float:
    """The Bayesian information criterion; a break counts twice, for its place was chosen, too."""
    ratios = _basis(sizes, breaks) @ _fitted(sizes, seconds, breaks) / seconds
    errors = np.log(np.maximum(ratios, SMALLEST))
    n = len(sizes)
    return n * math.log(float(errors @ errors) / n + LEAST_ERROR**2) + (2 + 2 * len(breaks)) * math.log(n)


def _curve(points: Sequence[Point], sizes: Array, seconds: Array, breaks: Sequence[float]) -> Curve:
    base, *slopes = _fitted(sizes, seconds, breaks)
    bare = Curve((0.0, *breaks), tuple(map(float, slopes)), float(base), tuple(sizes.tolist()), (), ())
    fitted = [max(bare.seconds(size), SMALLEST * time) for size, time in zip(sizes, seconds, strict=True)]
    low = [min(1.0, (point.low or point.seconds) / fit) for point, fit in zip(points, fitted, strict=True)]
    high = [max(1.0, (point.high or point.seconds) / fit) for point, fit in zip(points, fitted, strict=True)]
    return Curve(bare.starts, bare.slopes, bare.base, bare.sizes, tuple(low), tuple(high))
