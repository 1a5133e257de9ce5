"""The solver of the generic model: variable projection over the powers only.

y ≈ (Σ a_i·I_i^p_i + Σ levels)·Π E_j^q_j + C is linear in (a, levels, C) once the powers θ = (p, q) are fixed.
That part is solved exactly (non-negative least squares); Levenberg-Marquardt moves θ along Kaufman's
projected Jacobian (Golub and Pereyra: Separable nonlinear least squares, Inverse Problems 19, 2003). Absolute
and relative error are re-weighted least squares of √(r² + δ²) with a small δ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import lsq_linear, nnls

Array = np.ndarray
# The source's bound of a coefficient, here in typical targets at a typical configuration: no unit matters.
LARGEST = 1000.0
RIDGE = 1e-11
# The relative error of a measured time that the weak prior on powers is weighed against.
USUAL_ERROR = 0.05
TRIES = 5


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
    has_zeros: bool = False
    penalty: Penalty = Penalty()
    counts: Array | None = None  # columns of counts, which no power scales: [N > 1], ln N
    usual: Array | None = None  # weak prior: where powers lie unless the data tell otherwise,
    width: Array | None = None  # how far from there they plausibly lie,
    shared: Array | None = None  # which of them lie near −1 where workers share the work, else near 0,
    pull: float = 0.0  # and the price of a squared width

    def prior_cost(self, theta: Array) -> float:
        """What the weak prior on the powers adds to the mean loss."""
        if self.usual is None or self.width is None:
            return 0.0
        return self.pull * float(np.sum(((theta - self.usual) / self.width)[self.moving] ** 2))

    def held_near(self, theta: Array) -> Problem:
        """The same problem, powers of counts held near the usual value that is nearer to these: −1 or 0."""
        if self.usual is None or self.shared is None:
            return self
        return replace(self, usual=np.where(self.shared, np.where(theta < -0.5, -1.0, 0.0), self.usual))

    def rows(self, chosen: Array) -> Problem:
        """The same problem on some of the rows."""
        cut = {name: getattr(self, name)[chosen]
               for name in ("inner", "inner_on", "outer", "outer_on", "levels", "y", "unit")}  # fmt: skip
        # The fewer the rows, the more each of them has to say against the prior.
        pull = self.pull * len(self.y) / max(len(cut["y"]), 1)
        return replace(self, **cut, counts=None if self.counts is None else self.counts[chosen], pull=pull)

    def basis(self, theta: Array) -> Array:
        """The columns that are combined linearly: intrinsic terms, levels, counts, constant."""
        n, k = self.inner.shape[1], self.levels.shape[1]
        e = 0 if self.counts is None else self.counts.shape[1]
        made = np.empty((len(self.y), n + k + e + 1))
        scale = np.exp(self.outer @ theta[n:])[:, None]
        if self.has_zeros:
            scale = scale * self.outer_on.prod(axis=1)[:, None]
        np.multiply(np.exp(self.inner * theta[:n]), scale, out=made[:, :n])
        if self.has_zeros:
            made[:, :n] *= self.inner_on
        np.multiply(self.levels, scale, out=made[:, n : n + k])
        if self.counts is not None:
            made[:, n + k : -1] = self.counts
        made[:, -1] = 1.0
        return made

    def derivatives(self, basis: Array, coef: Array) -> Array:
        """The derivative of the prediction by each moving power."""
        n, scaled = self.inner.shape[1], self.inner.shape[1] + self.levels.shape[1]
        inside, outside = np.flatnonzero(self.moving[:n]), np.flatnonzero(self.moving[n:])
        inner = basis[:, inside] * coef[inside] * self.inner[:, inside]
        return np.hstack([inner, (basis[:, :scaled] @ coef[:scaled])[:, None] * self.outer[:, outside]])


@dataclass(frozen=True)
class PowersPoint:
    """A point of the search: powers, the best coefficients for them, and what they cost."""

    theta: Array
    coef: Array
    basis: Array
    residual: Array
    cost: float


def _triangle(matrix: Array) -> Array:
    """A triangle R with RᵀR = matrixᵀmatrix, by Cholesky on columns of unit length.

    Several times faster than QR; the ridge, far below any noise, stands for the digits that this loses.
    """
    gram = matrix.T @ matrix
    norms = np.sqrt(gram.diagonal())
    norms[norms == 0] = 1.0
    gram /= norms[:, None] * norms
    gram.flat[:: len(gram) + 1] += RIDGE
    try:
        return np.asarray(np.linalg.cholesky(gram).T * norms)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.qr(matrix, mode="r"))


def linear_part(y: Array, basis: Array, root: Array, ridge: Array) -> Array:
    """The coefficients in 0..LARGEST that minimise Σ(root·(y − basis·coef))² + Σ ridge·coef²."""
    width = basis.shape[1]
    weighted = np.empty((len(root), width + 1))
    np.multiply(basis, root[:, None], out=weighted[:, :width])
    np.multiply(y, root, out=weighted[:, width])
    if ridge.any():
        weighted = np.vstack([weighted, np.diag(np.append(np.sqrt(ridge), 0.0))[:width]])
    # What remains is as small as the number of columns, however many rows there are.
    triangle = _triangle(weighted)
    norms = np.sqrt((triangle[:, :width] ** 2).sum(axis=0))
    matrix, right = triangle[:width, :width] / norms, triangle[:width, width]
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
    return mean_loss(problem, residual) + problem.penalty.cost(coef, theta) + problem.prior_cost(theta)


def _roots(problem: Problem, residual: Array, delta: float) -> Array:
    """Square roots of the weights that make least squares follow the loss."""
    if problem.squared:
        return np.asarray(np.sqrt(2.0) / problem.unit)
    return np.asarray((problem.unit**2 * (residual**2 + (delta * problem.unit) ** 2)) ** -0.25)


def _stretch(problem: Problem, residual: Array, delta: float) -> float:
    """By how much re-weighted least squares underestimates the step: its curvature over the loss's own.

    The weight 1/√(r² + δ²) majorises the loss; the loss itself curves only where |r| is about δ.
    """
    if problem.squared:
        return 1.0
    square = (residual / problem.unit) ** 2 + delta**2
    weight = 1 / np.sqrt(square)
    return float(np.clip(0.9 * weight.sum() / (delta**2 * weight / square).sum(), 1.0, 3.0))


def start(problem: Problem, theta: Array) -> PowersPoint:
    """The point at given powers: the coefficients come close to the best for the problem's loss."""
    basis, penalty, n = problem.basis(theta), problem.penalty, len(problem.y)
    coef, root = np.ones(basis.shape[1]), 1 / problem.unit
    for _ in range(1 if problem.squared else 4):
        coef = linear_part(problem.y, basis, root, n * penalty.weight(coef, penalty.coef))
        residual = problem.y - basis @ coef
        root = _roots(problem, residual, float(np.median(np.abs(residual / problem.unit))) + 1e-12)
    return PowersPoint(theta, coef, basis, residual, _total(problem, residual, coef, theta))


def beside(problem: Problem, point: PowersPoint, theta: Array, delta: float) -> PowersPoint:
    """The point at other powers, coefficients with the weights of a point that is near."""
    basis, penalty = problem.basis(theta), problem.penalty
    ridge = len(problem.y) * penalty.weight(point.coef, penalty.coef)
    coef = linear_part(problem.y, basis, _roots(problem, point.residual, delta), ridge)
    residual = problem.y - basis @ coef
    return PowersPoint(theta, coef, basis, residual, _total(problem, residual, coef, theta))


def _direction(
    problem: Problem, point: PowersPoint, residual: Array, root: Array, prices: tuple[Array, Array], stretch: float
) -> tuple[Array, Array]:
    """R and right side of the least squares for a step in θ, the passive linear part projected out."""
    ridge, power_price = prices
    passive = np.flatnonzero(point.coef > 0)
    slopes = problem.derivatives(point.basis, point.coef)
    size, count = len(passive), slopes.shape[1]
    stacked = np.empty((len(root), size + count + 1))
    np.multiply(point.basis[:, passive], root[:, None], out=stacked[:, :size])
    np.multiply(slopes, root[:, None], out=stacked[:, size:-1])
    np.multiply(residual, root, out=stacked[:, -1])
    if ridge.any():
        rows = np.zeros((size, stacked.shape[1]))
        rows[:, :size] = np.diag(np.sqrt(ridge[passive]))
        rows[:, -1] = -np.sqrt(ridge[passive]) * point.coef[passive]
        stacked = np.vstack([stacked, rows])
    triangle = _triangle(stacked)
    block = triangle[size : size + count, size : size + count]
    right = triangle[size : size + count, -1]
    at = point.theta[problem.moving]
    price = np.sqrt(power_price[problem.moving])
    matrix, goals = [block, np.diag(price)], [right, -price * at]
    if problem.usual is not None and problem.width is not None and problem.pull:
        held = np.sqrt(2 * len(problem.y) * problem.pull * stretch) / problem.width[problem.moving]
        matrix.append(np.diag(held))
        goals.append(held * (problem.usual[problem.moving] - at))
    return np.vstack(matrix), np.concatenate(goals)


def _step(matrix: Array, right: Array, damping: float, point: PowersPoint, problem: Problem) -> Array:
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


def _smooth_cost(problem: Problem, point: PowersPoint, delta: float) -> float:
    """What the search lowers: the loss with a rounded corner, and the penalty."""
    scaled = (point.residual / problem.unit) ** 2
    loss = scaled if problem.squared else np.sqrt(scaled + delta**2)
    return float(loss.mean()) + problem.penalty.cost(point.coef, point.theta) + problem.prior_cost(point.theta)


def _moved(problem: Problem, point: PowersPoint, delta: float, damping: float, stretch: float) -> Iterator[PowersPoint]:
    """Candidates from one linearisation, each more cautious than the last."""
    penalty, n = problem.penalty, len(problem.y)
    root = _roots(problem, point.residual, delta)
    prices = (n * penalty.weight(point.coef, penalty.coef), n * penalty.weight(point.theta, penalty.power))
    while True:
        stretched = (prices[0] * stretch, prices[1] * stretch)
        goal = point.residual * stretch
        matrix, right = _direction(problem, point, goal, root, stretched, stretch)
        theta = _step(matrix, right, damping, point, problem)
        basis = problem.basis(theta)
        coef = linear_part(problem.y - point.residual + goal, basis, root, stretched[0])
        residual = problem.y - basis @ coef
        yield PowersPoint(theta, coef, basis, residual, _total(problem, residual, coef, theta))
        damping, stretch = (damping, 1.0) if stretch > 1 else (damping * 10, 1.0)


def descend(problem: Problem, point: PowersPoint, delta: float, iterations: int, tolerance: float) -> PowersPoint:
    """Levenberg-Marquardt over the powers, weights renewed at every step, until the cost stands still."""
    damping, still, cost = 1e-2, 0, _smooth_cost(problem, point, delta)
    for _ in range(iterations):
        stretch = _stretch(problem, point.residual, delta)
        for tried, candidate in enumerate(_moved(problem, point, delta, damping, stretch)):
            lower = _smooth_cost(problem, candidate, delta)
            if lower <= cost * (1 + 1e-13) or tried == TRIES:
                break
        if lower > cost * (1 + 1e-13):
            break
        damping = max(damping / 5, 1e-12) if tried <= 1 else damping * 10 ** (tried - 1)
        still = still + 1 if cost - lower < tolerance * cost else 0
        point, cost = candidate, lower
        if still >= 2:
            break
    return point
