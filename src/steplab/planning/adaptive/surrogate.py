"""What is known of the whole space after some trials: a Gaussian process over the logarithm of the time.

Its kernel has a part that is linear in every factor (times are roughly powers), a smooth one for what bends, one for
what is particular to a configuration, and the noise between replicates; their sizes and lengths are those under which
the measured times are likeliest, with weak priors (Rasmussen and Williams: Gaussian Processes for Machine Learning,
2006, chapters 2 and 5). Conditioning tells what a further trial would reduce without knowing its outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from steplab.planning.adaptive.space import Space

Array = np.ndarray
ROWS_TO_LEARN = 150  # measured trials from which sizes and lengths are learned
LEVEL_APART = 0.5  # how alike the bends of two levels of a factor are
CONSTANT = 25.0  # variance of the mean level: anything
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

    @property
    def vector(self) -> Array:
        """All of them."""
        return np.array([self.linear, self.level, self.smooth, self.own, self.noise, *self.lengths])

    @classmethod
    def of(cls, vector: Array) -> Sizes:
        """The inverse of `vector`."""
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
        covariance = self.covariance(self.rows, self.rows) + self.noise * np.eye(len(self.rows))
        factor: tuple[Array, bool] = cho_factor(covariance + 1e-10 * np.eye(len(self.rows)), lower=True)
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

    def posterior(self, left: Array, right: Array) -> Array:
        """Covariances between candidates, after what was measured."""
        covariance = self.covariance(left, right)
        if not len(self.rows):
            return covariance
        return np.asarray(
            covariance - self.covariance(left, self.rows) @ cho_solve(self._factor, self.covariance(self.rows, right))
        )

    def variance(self, at: Array) -> Array:
        """The variance of candidates, after what was measured."""
        own = np.exp([self.sizes.smooth, self.sizes.own]).sum() + CONSTANT
        points = self.space.points[at]
        total = own + np.exp(self.sizes.linear) * (points**2).sum(1)
        total += np.exp(self.sizes.level) * self.space.levels.shape[1]
        if not len(self.rows):
            return np.asarray(total)
        cross = self.covariance(at, self.rows)
        known = np.einsum("ij,ji->i", cross, cho_solve(self._factor, cross.T))
        return np.asarray(np.maximum(total - known, 1e-12))

    def pairwise(self, left: Array, right: Array) -> Array:
        """The covariance of each candidate with its partner, after what was measured."""
        points, levels = self.space.points, self.space.levels
        parts = [_kernel(points[[a]], points[[b]], levels[[a]], levels[[b]], self.sizes, np.array([[a == b]]))
                 for a, b in zip(left, right, strict=True)]  # fmt: skip
        before = np.array([float(part[0, 0]) for part in parts])
        if not len(self.rows):
            return before
        solved = cho_solve(self._factor, self.covariance(self.rows, right))
        return np.asarray(before - np.einsum("ij,ji->i", self.covariance(left, self.rows), solved))

    def believing(self, row: int) -> Surrogate:
        """The same after a further trial that came out as expected."""
        at = np.array([row])
        logs = np.append(self.logs, self.mean(at)[0])
        return replace(self, rows=np.append(self.rows, row), logs=logs)


def _kernel(
    left: Array, right: Array, left_levels: Array, right_levels: Array, sizes: Sizes, same: Array
) -> Array:  # fmt: skip
    return sum(
        (part for part, _ in _parts(left, right, left_levels, right_levels, sizes, same)), start=np.asarray(CONSTANT)
    )


def _parts(
    left: Array, right: Array, left_levels: Array, right_levels: Array, sizes: Sizes, same: Array
) -> list[tuple[Array, str]]:
    """The kernel's parts, each with the size that it is proportional to."""
    linear = np.exp(sizes.linear) * (left @ right.T)
    equal = sum(
        (a[:, None] == b for a, b in zip(left_levels.T, right_levels.T, strict=True)), start=np.zeros_like(linear)
    )
    level = np.exp(sizes.level) * equal
    apart = left_levels.shape[1] - equal
    scaled_left, scaled_right = left / np.exp(sizes.lengths), right / np.exp(sizes.lengths)
    squares = (scaled_left**2).sum(1)[:, None] + (scaled_right**2).sum(1) - 2 * scaled_left @ scaled_right.T
    smooth = np.exp(sizes.smooth) * np.exp(-0.5 * np.maximum(squares, 0.0)) * LEVEL_APART**apart
    return [(linear, "linear"), (level, "level"), (smooth, "smooth"), (np.exp(sizes.own) * same, "own")]


def learn(space: Space, rows: Sequence[int], logs: Array, seed: int = 0, start: Sizes | None = None) -> Surrogate:
    """The kernel under which the measured times are likeliest."""
    at, values = np.asarray(rows, int), np.asarray(logs, float)
    dimensions = len(space.numeric)
    mean, spread = prior(dimensions)
    begin = mean if start is None else start.vector
    if len(at) < 3:
        return Surrogate(space, at, values, Sizes.of(mean))
    few = np.arange(len(at))
    if len(at) > ROWS_TO_LEARN:
        few = np.sort(np.random.default_rng([seed, len(at)]).choice(len(at), ROWS_TO_LEARN, replace=False))
    target = _Likelihood(space, at[few], values[few] - values[few].mean(), mean, spread)
    optimum = minimize(target, begin, jac=True, method="L-BFGS-B", bounds=[(m - 6, m + 6) for m in mean],
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

    def __call__(self, vector: Array) -> tuple[float, Array]:
        sizes = Sizes.of(vector)
        points, levels = self.space.points[self.rows], self.space.levels[self.rows]
        same = self.rows[:, None] == self.rows
        parts = _parts(points, points, levels, levels, sizes, same)
        noise = np.exp(sizes.noise) * np.eye(len(self.rows))
        covariance = sum((part for part, _ in parts), start=CONSTANT + noise)
        try:
            factor = cho_factor(covariance + 1e-10 * np.eye(len(self.rows)), lower=True)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(vector)
        inverse = cho_solve(factor, np.eye(len(self.rows)))
        weights = inverse @ self.logs
        inner = inverse - np.outer(weights, weights)
        smooth = parts[2][0]
        slopes = [0.5 * float((inner * part).sum()) for part, _ in parts] + [0.5 * float((inner * noise).sum())]
        for column, length in zip(points.T, sizes.lengths, strict=True):
            apart = ((column[:, None] - column) / np.exp(length)) ** 2
            slopes.append(0.5 * float((inner * smooth * apart).sum()))
        away = (vector - self.mean) / self.spread
        value = 0.5 * float(self.logs @ weights) + float(np.log(np.diag(factor[0])).sum()) + 0.5 * float(away @ away)
        return value, np.array(slopes) + away / self.spread
