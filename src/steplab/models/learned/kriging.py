"""What a trend leaves unexplained, smoothed between measured points and fading to nothing beyond them.

A Gaussian process with a squared-exponential kernel, one length for each factor, fitted by marginal
likelihood (Rasmussen and Williams: Gaussian Processes for Machine Learning, 2006, chapters 2 and 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from steplab.models.formulas.formula import Node, bump_sum, bumps, number, op

Array = np.ndarray
ROWS_TO_LEARN = 300
ROWS_TO_KEEP = 800
SHORTEST, LONGEST, USUAL = 0.02, 1.0, 0.3
# The correction is kept only if it improves the error of left-out points by at least this share.
WORTHWHILE = 0.98


@dataclass(frozen=True)
class Kriging:
    """Points with weights; a prediction is the kernel-weighted sum over them."""

    points: Array
    weights: Array
    lengths: Array
    signal: float
    noise: float

    def predict(self, Z: Array) -> Array:
        """The smooth part at each point."""
        if not len(self.points):
            return np.zeros(len(Z))
        return self.signal * bump_sum(Z / self.lengths, self.points / self.lengths, self.weights)

    def node(self, places: Sequence[Node], share: float = 1.0) -> Node | None:
        """A share of the smooth part as a piece of a formula in these coordinates; None where it is zero everywhere."""
        if not len(self.points):
            return None
        # Bumps have width 1: coordinates and points are divided by the lengths.
        scaled = [op("div", place, number(length)) for place, length in zip(places, self.lengths, strict=True)]
        return bumps(scaled, self.points / self.lengths, share * self.signal * self.weights)


def nothing(dimensions: int) -> Kriging:
    """A correction that is zero everywhere."""
    return Kriging(np.empty((0, dimensions)), np.empty(0), np.ones(dimensions), 0.0, 1.0)


def learn(Z: Array, residuals: Array) -> Kriging:
    """Lengths and amplitudes by marginal likelihood, then the weights; nothing if it does not help."""
    dimensions = Z.shape[1]
    variance = float(np.var(residuals))
    if dimensions == 0 or len(Z) < 8 or variance < 1e-12:
        return nothing(dimensions)
    few = _chosen(len(Z), ROWS_TO_LEARN)
    likely = _most_likely(Z[few], residuals[few], variance)
    if likely is None:
        return nothing(dimensions)
    lengths, signal, noise = likely[:dimensions], float(likely[dimensions]), float(likely[dimensions + 1])
    return with_lengths(Z, residuals, lengths, signal, noise)


def with_lengths(Z: Array, residuals: Array, lengths: Array, signal: float, noise: float) -> Kriging:
    """The weights for given lengths and amplitudes; nothing if it would not help at left-out points."""
    kept = _chosen(len(Z), ROWS_TO_KEEP)
    Z, residuals = Z[kept], residuals[kept]
    covariance = signal * _kernel(Z, Z, lengths) + noise * np.eye(len(Z))
    factor = cho_factor(covariance, lower=True)
    weights = cho_solve(factor, residuals)
    left_out = weights / np.diag(lower_inverse(factor[0]))
    if np.mean(left_out**2) > WORTHWHILE**2 * np.mean(residuals**2):
        return nothing(Z.shape[1])
    return Kriging(Z, weights, lengths, signal, noise)


def lower_inverse(factor: Array) -> Array:
    """The inverse of a matrix from its lower Cholesky factor; what stands above the diagonal means nothing.

    It is a third of the work of solving for each unit vector.
    """
    return np.asarray(dpotri(factor, lower=1)[0])


def _chosen(rows: int, most: int) -> Array:
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).permutation(rows)[:most])


def _kernel(A: Array, B: Array, lengths: Array) -> Array:
    a, b = A / lengths, B / lengths
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    return np.asarray(np.exp(-0.5 * np.maximum(squared, 0)))


def _most_likely(Z: Array, residuals: Array, variance: float) -> Array | None:
    dimensions = Z.shape[1]
    squares = (Z[:, None, :] - Z[None]) ** 2
    twice = 2.0 * np.tri(len(Z), k=-1) + np.eye(len(Z))  # sums over a symmetric matrix from its lower half
    limits = [(np.log(SHORTEST), np.log(LONGEST))] * dimensions
    limits += [(np.log(variance * 1e-3), np.log(variance * 3))] * 2
    best = None
    for length in (0.1, 0.4):
        start = np.concatenate([np.full(dimensions, np.log(length)), np.full(2, np.log(variance / 2))])
        descent = minimize(
            _unlikelihood, start, (squares, twice, residuals), "L-BFGS-B", jac=True, bounds=limits,
            options={"maxiter": 40},
        )  # fmt: skip
        if np.isfinite(descent.fun) and (best is None or descent.fun < best.fun):
            best = descent
    return None if best is None else np.exp(best.x)


def _unlikelihood(logs: Array, squares: Array, twice: Array, residuals: Array) -> tuple[float, Array]:
    """The negative log marginal likelihood with a weak prior on the lengths, and its gradient."""
    dimensions = squares.shape[2]
    lengths, signal, noise = np.exp(logs[:dimensions]), np.exp(logs[dimensions]), np.exp(logs[-1])
    smooth = signal * np.exp(-0.5 * squares @ lengths**-2.0)
    try:
        factor = cho_factor(smooth + noise * np.eye(len(residuals)), lower=True)
    except LinAlgError:
        return 1e10, np.zeros_like(logs)
    weights = cho_solve(factor, residuals)
    pull = np.outer(weights, weights) - lower_inverse(factor[0])
    moved = pull * smooth * twice
    by_length = -0.5 * (moved.ravel() @ squares.reshape(-1, dimensions)) / lengths**2
    by_amplitude = [-0.5 * float(np.sum(moved)), -0.5 * float(np.trace(pull)) * noise]
    prior = logs[:dimensions] - np.log(USUAL)
    value = 0.5 * residuals @ weights + np.log(np.diag(factor[0])).sum() + 0.5 * prior @ prior
    return float(value), np.concatenate([by_length + prior, by_amplitude])
