"""What is known of the whole space after some trials: a Gaussian process over the logarithm of the time.

Its kernel has a part that is linear in every factor (times are roughly powers), a smooth one for what bends, one for
what is particular to a configuration, and the noise between replicates; their sizes and lengths are those under which
the measured times are likeliest, with weak priors (Rasmussen and Williams: Gaussian Processes for Machine Learning,
2006, chapters 2 and 5). Conditioning tells what a further trial would reduce without knowing its outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

from steplab.models.learned.kriging import lower_inverse
from steplab.planning.adaptive.space import Space

Array = np.ndarray
ROWS_TO_LEARN = 150  # measured trials from which sizes and lengths are learned
LEVEL_APART = 0.5  # how alike the bends of two levels of a factor are
CONSTANT = 25.0  # variance of the mean level: anything
JITTER = 1e-10  # so that a covariance stays positive definite in floating point
# Logarithms of variances and lengths before anything was measured, and how far they may well be from that.
PRIOR = {"linear": (0.0, 1.5), "level": (-2.5, 1.5), "smooth": (-2.5, 1.5), "own": (-7.0, 1.5), "noise": (-6.0, 2.0)}
LENGTH = (-0.5, 0.7)


@dataclass(frozen=True)
class Sizes:
    """Variances of the kernel's parts, and a length for each numeric factor, as logarithms."""

    linear: float
    level: float
    smooth: float
    own: float
    noise: float
    lengths: tuple[float, ...]

    @classmethod
    def of(cls, vector: Array) -> Sizes:
        """From one array: the variances in this order, then the lengths."""
        linear, level, smooth, own, noise, *lengths = (float(value) for value in vector)
        return cls(linear, level, smooth, own, noise, tuple(lengths))


def prior(dimensions: int) -> tuple[Array, Array]:
    """Means and spreads of the logarithms before anything was measured."""
    pairs = [*PRIOR.values(), *[LENGTH] * dimensions]
    return np.array([mean for mean, _ in pairs]), np.array([spread for _, spread in pairs])


@dataclass(frozen=True)
class Surrogate:
    """A space, the measured candidates (one entry for each trial), their log times, and the kernel's sizes."""

    space: Space
    rows: Array
    logs: Array
    sizes: Sizes

    def covariance(self, left: Array, right: Array) -> Array:
        """Between candidates, noise left out."""
        points, levels = self.space.points, self.space.levels
        same = left[:, None] == right
        return _kernel(points[left], points[right], levels[left], levels[right], self.sizes, same)

    @property
    def noise(self) -> float:
        """The variance between replicates."""
        return float(np.exp(self.sizes.noise))

    @cached_property
    def _factor(self) -> tuple[Array, bool]:
        covariance = self.covariance(self.rows, self.rows) + (self.noise + JITTER) * np.eye(len(self.rows))
        factor: tuple[Array, bool] = cho_factor(covariance, lower=True)
        return factor

    @cached_property
    def _weights(self) -> Array:
        return np.asarray(cho_solve(self._factor, self.logs - self._level))

    @property
    def _level(self) -> float:
        return float(np.mean(self.logs)) if len(self.logs) else 0.0

    def mean(self, at: Array) -> Array:
        """The expected log time of candidates."""
        if not len(self.rows):
            return np.zeros(len(at))
        return np.asarray(self._level + self.covariance(at, self.rows) @ self._weights)

    def left_out(self) -> Array:
        """The log time of each trial as the others tell it, with the sizes that all of them gave."""
        return np.asarray(self.logs - self._weights / np.diag(lower_inverse(self._factor[0])))

    def before(self, at: Array) -> Array:
        """The variance of candidates before anything was measured."""
        own = np.exp([self.sizes.smooth, self.sizes.own]).sum() + CONSTANT
        levels = np.exp(self.sizes.level) * self.space.levels.shape[1]
        return np.asarray(own + levels + np.exp(self.sizes.linear) * (self.space.points[at] ** 2).sum(1))

    def solved(self, at: Array) -> Array:
        """Covariances of candidates with the trials in units in which the trials are independent: a row for each."""
        if not len(self.rows):
            return np.zeros((0, len(at)))
        return np.asarray(solve_triangular(self._factor[0], self.covariance(self.rows, at), lower=True))


def _kernel(
    left: Array, right: Array, left_levels: Array, right_levels: Array, sizes: Sizes, same: Array
) -> Array:  # fmt: skip
    scaled_left, scaled_right = left / np.exp(sizes.lengths), right / np.exp(sizes.lengths)
    squares = (scaled_left**2).sum(1)[:, None] + (scaled_right**2).sum(1) - 2 * scaled_left @ scaled_right.T
    equal = _equal(left_levels, right_levels)
    alike = LEVEL_APART ** (left_levels.shape[1] - equal)
    parts = _parts(left @ right.T, equal, np.exp(-0.5 * np.maximum(squares, 0.0)) * alike, same, sizes)
    return sum(parts, start=np.asarray(CONSTANT))


def _equal(left: Array, right: Array) -> Array:
    """In how many factors two candidates have the same level."""
    columns = (a[:, None] == b for a, b in zip(left.T, right.T, strict=True))
    return sum(columns, start=np.zeros((len(left), len(right))))


def _parts(products: Array, equal: Array, bumps: Array, same: Array, sizes: Sizes) -> tuple[Array, ...]:
    """The kernel's parts in the order of the sizes that they are proportional to."""
    linear, level, smooth, own = np.exp([sizes.linear, sizes.level, sizes.smooth, sizes.own])
    return linear * products, level * equal, smooth * bumps, own * same


def learn(space: Space, rows: Sequence[int], logs: Array, seed: int = 0) -> Surrogate:
    """The kernel under which the measured times are likeliest."""
    at, values = np.asarray(rows, int), np.asarray(logs, float)
    dimensions = len(space.numeric)
    mean, spread = prior(dimensions)
    if len(at) < 3:
        return Surrogate(space, at, values, Sizes.of(mean))
    few = np.arange(len(at))
    if len(at) > ROWS_TO_LEARN:
        few = np.sort(np.random.default_rng([seed, len(at)]).choice(len(at), ROWS_TO_LEARN, replace=False))
    target = _Likelihood(space, at[few], values[few] - values[few].mean(), mean, spread)
    optimum = minimize(target, mean, jac=True, method="L-BFGS-B", bounds=[(m - 6, m + 6) for m in mean],
                     options={"maxiter": 60})  # fmt: skip
    return Surrogate(space, at, values, Sizes.of(optimum.x))


@dataclass(frozen=True)
class _Likelihood:
    """The negative logarithm of likelihood and prior, with its gradient."""

    space: Space
    rows: Array
    logs: Array
    mean: Array
    spread: Array

    # What no size changes is computed once: an optimiser asks a hundred times.

    @cached_property
    def _products(self) -> Array:
        points = self.space.points[self.rows]
        return np.asarray(points @ points.T)

    @cached_property
    def _squares(self) -> Array:
        points = self.space.points[self.rows]
        return np.asarray((points[:, None, :] - points) ** 2).reshape(-1, points.shape[1])

    @cached_property
    def _levels(self) -> tuple[Array, Array]:
        levels = self.space.levels[self.rows]
        equal = _equal(levels, levels)
        return equal, np.asarray(LEVEL_APART ** (levels.shape[1] - equal))

    @cached_property
    def _same(self) -> Array:
        return np.asarray(self.rows[:, None] == self.rows)

    @cached_property
    def _twice(self) -> Array:
        """Sums over a symmetric matrix from its lower half."""
        return np.asarray(2.0 * np.tri(len(self.rows), k=-1) + np.eye(len(self.rows)))

    def __call__(self, vector: Array) -> tuple[float, Array]:
        sizes, number = Sizes.of(vector), len(self.rows)
        equal, alike = self._levels
        shortness = np.exp(-2.0 * np.asarray(sizes.lengths))
        bumps = np.exp(-0.5 * (self._squares @ shortness)).reshape(number, number) * alike
        parts = _parts(self._products, equal, bumps, self._same, sizes)
        covariance = sum(parts, start=CONSTANT + (np.exp(sizes.noise) + JITTER) * np.eye(number))
        try:
            factor = cho_factor(covariance, lower=True)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(vector)
        weights = cho_solve(factor, self.logs)
        pull = 0.5 * self._twice * (lower_inverse(factor[0]) - np.outer(weights, weights))
        by_size = [float((pull * part).sum()) for part in parts] + [np.exp(sizes.noise) * float(np.trace(pull))]
        by_length = ((pull * parts[2]).ravel() @ self._squares) * shortness
        away = (vector - self.mean) / self.spread
        value = 0.5 * float(self.logs @ weights) + float(np.log(np.diag(factor[0])).sum()) + 0.5 * float(away @ away)
        return value, np.concatenate([by_size, by_length]) + away / self.spread
