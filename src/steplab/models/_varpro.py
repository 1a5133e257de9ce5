"""The solver of the generic model: variable projection over the powers only.

y ≈ (Σ a_i·I_i^p_i + Σ levels)·Π E_j^q_j + C is linear in (a, levels, C) once the powers θ = (p, q) are fixed.
That part is solved exactly (non-negative least squares); Levenberg-Marquardt moves θ along Kaufman's
projected Jacobian (Golub and Pereyra: Separable nonlinear least squares, Inverse Problems 19, 2003). Absolute
and relative error are re-weighted least squares of √(r² + δ²) with a small δ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import lsq_linear, nnls

Array = np.ndarray
# The source's bound of a coefficient, here in typical targets at a typical configuration: no unit matters.
LARGEST = 1000.0
BLOCK = 1024


@dataclass(frozen=True)
class Penalty:
    """A price on coefficients and on powers: λ·|x| (l1) or λ·x² (l2)."""

    kind: str = "none"
    coef: float = 0.0
    power: float = 0.0

    def weight(self, x: Array, strength: float) -> Array:
        """The weight w for which ½·w·x² has the penalty's slope at x."""
        if self.kind == "l1":
            return np.asarray(strength / np.sqrt(x**2 + 1e-8))
        return np.full(len(x), 2 * strength if self.kind == "l2" else 0.0)

    def cost(self, coef: Array, power: Array) -> float:
        """What the penalty adds to the mean loss."""
        if self.kind == "none":
            return 0.0
        norm = np.abs if self.kind == "l1" else np.square
        return float(self.coef * norm(coef).sum() + self.power * norm(power).sum())


@dataclass(frozen=True)
class Problem:
    """The data in typical units: logarithms of the factors, level columns, target, and how errors count."""

    inner: Array  # logarithms of intrinsic factors, 0 where the factor is 0
    inner_on: Array  # 0 where the factor itself is 0, else 1
    outer: Array  # logarithms of extrinsic factors
    outer_on: Array
    levels: Array  # one 0/1 column per level, or a column of ones, or none
    y: Array
    unit: Array  # each row's error counts in this unit: 1, or |y| for the relative loss
    low: Array  # bounds of (p, q)
    high: Array
    moving: Array  # which powers are searched for; the others stay where they start
    squared: bool
    penalty: Penalty = Penalty()

    def rows(self, chosen: Array) -> Problem:
        """The same problem on some of the rows."""
        cut = {name: getattr(self, name)[chosen]
               for name in ("inner", "inner_on", "outer", "outer_on", "levels", "y", "unit")}  # fmt: skip
        return replace(self, **cut)

    def basis(self, theta: Array) -> Array:
        """The columns that are combined linearly: intrinsic terms, levels, constant."""
        n = self.inner.shape[1]
        scale = (np.exp(self.outer @ theta[n:]) * self.outer_on.prod(axis=1))[:, None]
        terms = np.exp(self.inner * theta[:n]) * self.inner_on
        return np.hstack([terms * scale, self.levels * scale, np.ones((len(self.y), 1))])

    def derivatives(self, basis: Array, coef: Array) -> Array:
        """The derivative of the prediction by each moving power."""
        n = self.inner.shape[1]
        inside, outside = np.flatnonzero(self.moving[:n]), np.flatnonzero(self.moving[n:])
        inner = basis[:, inside] * coef[inside] * self.inner[:, inside]
        return np.hstack([inner, (basis[:, :-1] @ coef[:-1])[:, None] * self.outer[:, outside]])


@dataclass(frozen=True)
class Point:
    """A point of the search: powers, the best coefficients for them, and what they cost."""

    theta: Array
    coef: Array
    basis: Array
    residual: Array
    cost: float


def _triangle(matrix: Array) -> Array:
    """R of the QR decomposition; a tall matrix is taken in blocks that fit the cache."""
    rows, width = matrix.shape
    whole = rows // BLOCK * BLOCK
    if rows > 4 * BLOCK and width < BLOCK:
        blocks = np.asarray(np.linalg.qr(matrix[:whole].reshape(-1, BLOCK, width), mode="r"))
        matrix = np.vstack([blocks.reshape(-1, width), matrix[whole:]])
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def linear_part(problem: Problem, basis: Array, root: Array, ridge: Array) -> Array:
    """The coefficients in 0..LARGEST that minimise Σ(root·residual)² + Σ ridge·coef²."""
    width = basis.shape[1]
    weighted = np.empty((len(root), width + 1))
    np.multiply(basis, root[:, None], out=weighted[:, :width])
    np.multiply(problem.y, root, out=weighted[:, width])
    if ridge.any():
        weighted = np.vstack([weighted, np.diag(np.append(np.sqrt(ridge), 0.0))[:width]])
    norms = np.sqrt(np.einsum("ij,ij->j", weighted[:, :width], weighted[:, :width]))
    norms[norms == 0] = 1.0
    weighted[:, :width] /= norms
    # Only R of the QR decomposition: what remains is as small as the number of columns.
    triangle = _triangle(weighted)
    matrix, right = triangle[:width, :width], triangle[:width, width]
    try:
        coef = nnls(matrix, right)[0] / norms
    except RuntimeError:
        coef = np.full(width, np.inf)
    if (coef > LARGEST).any() or not np.isfinite(coef).all():
        coef = lsq_linear(matrix, right, bounds=(0, LARGEST * norms), method="bvls").x / norms
    return np.asarray(coef)


def mean_loss(problem: Problem, residual: Array) -> float:
    """The mean error in the problem's own loss, without penalty."""
    scaled = residual / problem.unit
    return float(np.mean(scaled**2) if problem.squared else np.mean(np.abs(scaled)))


def _total(problem: Problem, residual: Array, coef: Array, theta: Array) -> float:
    return mean_loss(problem, residual) + problem.penalty.cost(coef, theta)


def _roots(problem: Problem, residual: Array, delta: float) -> Array:
    """Square roots of the weights that make least squares follow the loss."""
    scaled = residual / problem.unit
    weight = np.full(len(scaled), 2.0) if problem.squared else 1 / np.sqrt(scaled**2 + delta**2)
    return np.asarray(np.sqrt(weight) / problem.unit)


def start(problem: Problem, theta: Array) -> Point:
    """The point at given powers: the coefficients come close to the best for the problem's loss."""
    basis, penalty, n = problem.basis(theta), problem.penalty, len(problem.y)
    coef, root = np.ones(basis.shape[1]), 1 / problem.unit
    for _ in range(1 if problem.squared else 4):
        coef = linear_part(problem, basis, root, n * penalty.weight(coef, penalty.coef))
        residual = problem.y - basis @ coef
        root = _roots(problem, residual, float(np.median(np.abs(residual / problem.unit))) + 1e-12)
    return Point(theta, coef, basis, residual, _total(problem, residual, coef, theta))


def _direction(
    problem: Problem, point: Point, root: Array, prices: tuple[Array, Array]
) -> tuple[Array, Array]:
    """R and right side of the least squares for a step in θ, the passive linear part projected out."""
    ridge, power_price = prices
    passive = point.coef > 0
    slopes = problem.derivatives(point.basis, point.coef)
    size, count = int(passive.sum()), slopes.shape[1]
    stacked = np.hstack([point.basis[:, passive], slopes, point.residual[:, None]]) * root[:, None]
    if ridge.any():
        rows = np.zeros((size, stacked.shape[1]))
        rows[:, :size] = np.diag(np.sqrt(ridge[passive]))
        rows[:, -1] = -np.sqrt(ridge[passive]) * point.coef[passive]
        stacked = np.vstack([stacked, rows])
    triangle = _triangle(stacked)
    block = triangle[size : size + count, size : size + count]
    right = triangle[size : size + count, -1]
    price = np.sqrt(power_price[problem.moving])
    return np.vstack([block, np.diag(price)]), np.concatenate([right, -price * point.theta[problem.moving]])


def _step(matrix: Array, right: Array, damping: float, point: Point, problem: Problem) -> Array:
    """The damped step in θ, inside the bounds; directions that lead out of them are frozen."""
    gradient = matrix.T @ right
    at = point.theta[problem.moving]
    low, high = problem.low[problem.moving], problem.high[problem.moving]
    free = ~(((at <= low) & (gradient < 0)) | ((at >= high) & (gradient > 0)))
    gram = matrix.T @ matrix
    size = np.diag(gram).copy()
    gram[np.diag_indices_from(gram)] += damping * np.maximum(size, 1e-12 * size.max(initial=0) + 1e-300)
    move = np.zeros(len(at))
    if free.any():
        move[free] = np.linalg.solve(gram[np.ix_(free, free)], gradient[free])
    # A power that jumps by more than 1 has left the region where the slope means anything.
    move *= min(1.0, 1.0 / max(float(np.abs(move).max(initial=0)), 1e-300))
    theta = point.theta.copy()
    theta[problem.moving] = np.clip(at + move, low, high)
    return theta


def descend(problem: Problem, point: Point, delta: float, iterations: int, tolerance: float) -> Point:
    """Levenberg-Marquardt over the powers, weights renewed at every step, until the powers stand still."""
    damping, still = 1e-2, 0
    penalty, n = problem.penalty, len(problem.y)
    for _ in range(iterations):
        root = _roots(problem, point.residual, delta)
        ridge = n * penalty.weight(point.coef, penalty.coef)
        power_price = n * penalty.weight(point.theta, penalty.power)
        matrix, right = _direction(problem, point, root, (ridge, power_price))

        def priced(p: Point, root: Array = root, ridge: Array = ridge, power: Array = power_price) -> float:
            return float(
                ((root * p.residual) ** 2).sum() + (ridge * p.coef**2).sum() + (power * p.theta**2).sum()
            )

        before, moved = priced(point), False
        for _ in range(5):
            theta = _step(matrix, right, damping, point, problem)
            basis = problem.basis(theta)
            coef = linear_part(problem, basis, root, ridge)
            residual = problem.y - basis @ coef
            candidate = Point(theta, coef, basis, residual, _total(problem, residual, coef, theta))
            if priced(candidate) <= before * (1 + 1e-13):
                moved = True
                damping = max(damping / 5, 1e-12)
                break
            damping *= 10
        if not moved:
            break
        change = float(np.abs(candidate.theta - point.theta).max())
        relative = (before - priced(candidate)) / max(before, 1e-300)
        point = candidate
        still = still + 1 if change < tolerance and relative < tolerance else 0
        if still >= 2:
            break
    return point
