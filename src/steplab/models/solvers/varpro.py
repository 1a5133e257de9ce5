"""The solver of the generic model: variable projection over the powers only.

y ≈ (Σ a_i·I_i^p_i + Σ levels)·Π E_j^q_j + C is linear in (a, levels, C) once the powers θ = (p, q) are fixed.
That part is solved exactly (non-negative least squares); Levenberg-Marquardt moves θ along Kaufman's
projected Jacobian (Golub and Pereyra: Separable nonlinear least squares, Inverse Problems 19, 2003). Absolute
and relative error are re-weighted least squares of √(r² + δ²) with a small δ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.optimize import lsq_linear, nnls

Array = np.ndarray
# The source's bound of a coefficient, here in typical targets at a typical configuration: no unit matters.
LARGEST = 1000.0
RIDGE = 1e-11
# The relative error of a measured time that the weak prior on powers is weighed against.
USUAL_ERROR = 0.05
TRIES = 6
EXCHANGES = 6


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
        return np.full(len(x), 2 * strength) if self.kind == "l2" else np.zeros(len(x))

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
        usual, price = self.held
        off = theta[self.moved] - usual
        return float(price @ (off * off))

    def held_near(self, theta: Array) -> Problem:
        """The same problem, powers of counts held near the usual value that is nearer to these: −1 or 0."""
        if self.usual is None or self.shared is None:
            return self
        return replace(self, usual=np.where(self.shared, np.where(theta < -0.5, -1.0, 0.0), self.usual))

    def rows(self, chosen: Array) -> Problem:
        """The same problem on some of the rows."""
        cut: dict[str, Any] = {
            name: np.asfortranarray(getattr(self, name)[chosen])
            for name in ("inner", "inner_on", "outer", "outer_on", "levels", "y", "unit")
        }
        # The fewer the rows, the more each of them has to say against the prior.
        pull = self.pull * len(self.y) / max(len(cut["y"]), 1)
        return replace(self, **cut, counts=None if self.counts is None else self.counts[chosen], pull=pull)

    @cached_property
    def places(self) -> tuple[Array, Array]:
        """The moving powers' places among the intrinsic and among the extrinsic factors."""
        n = self.inner.shape[1]
        return np.flatnonzero(self.moving[:n]), np.flatnonzero(self.moving[n:])

    @cached_property
    def moved(self) -> Array:
        """The places of the moving powers."""
        return np.flatnonzero(self.moving)

    @cached_property
    def held(self) -> tuple[Array, Array]:
        """Where the prior holds the moving powers, and the price of each squared distance from there."""
        if self.usual is None or self.width is None:
            return np.zeros(len(self.moved)), np.zeros(len(self.moved))
        return self.usual[self.moved], self.pull / self.width[self.moved] ** 2

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """The bounds of the moving powers."""
        return self.low[self.moved], self.high[self.moved]

    def basis(self, theta: Array) -> Array:
        """The columns that are combined linearly: intrinsic terms, levels, counts, constant."""
        n, k = self.inner.shape[1], self.levels.shape[1]
        e = 0 if self.counts is None else self.counts.shape[1]
        # Column by column in memory: all work below is on whole columns.
        columns = np.empty((len(self.y), n + k + e + 1), order="F")
        outer = self.outer @ theta[n:]
        np.multiply(self.inner, theta[:n], out=columns[:, :n])
        columns[:, :n] += outer[:, None]
        np.exp(columns[:, :n], out=columns[:, :n])
        np.multiply(self.levels, np.exp(outer)[:, None], out=columns[:, n : n + k])
        if self.has_zeros:
            columns[:, : n + k] *= self.outer_on.prod(axis=1)[:, None]
            columns[:, :n] *= self.inner_on
        if self.counts is not None:
            columns[:, n + k : -1] = self.counts
        columns[:, -1] = 1.0
        return columns

    def term(self, theta: Array, factor: int, power: float) -> Array:
        """The column of one intrinsic factor at another power."""
        n = self.inner.shape[1]
        column = np.exp(self.inner[:, factor] * power + self.outer @ theta[n:])
        return np.asarray(column * self.inner_on[:, factor] * self.outer_on.prod(axis=1) if self.has_zeros else column)

    def derivatives(self, basis: Array, coef: Array) -> Array:
        """The derivative of the prediction by each moving power."""
        scaled, (inside, outside) = self.inner.shape[1] + self.levels.shape[1], self.places
        slopes = np.empty((len(self.y), len(inside) + len(outside)), order="F")
        np.multiply(basis[:, inside], self.inner[:, inside], out=slopes[:, : len(inside)])
        slopes[:, : len(inside)] *= coef[inside]
        np.multiply((basis[:, :scaled] @ coef[:scaled])[:, None], self.outer[:, outside], out=slopes[:, len(inside) :])
        return slopes


@dataclass(frozen=True)
class PowersPoint:
    """A point of the search: powers, the best coefficients for them, and what they cost."""

    theta: Array
    coef: Array
    basis: Array
    residual: Array
    cost: float


def diagonal(matrix: Array) -> Array:
    """The diagonal itself, to be changed in place; a slice of `flat` would be a copy."""
    return np.asarray(np.einsum("ii->i", matrix))


def linear_part(y: Array, basis: Array, root: Array, ridge: Array, near: Array | None = None) -> Array:
    """The coefficients in 0..LARGEST that minimise Σ(root·(y − basis·coef))² + Σ ridge·coef².

    `near` are those of a point nearby: most often the same ones are zero, and a single solution is enough.
    """
    width = basis.shape[1]
    weighted = np.empty((len(root), width + 1), order="F")
    np.multiply(basis, root[:, None], out=weighted[:, :width])
    np.multiply(y, root, out=weighted[:, width])
    # What remains is as small as the number of columns, however many rows there are.
    gram = weighted.T @ weighted
    diagonal(gram)[:width] += ridge
    norms = np.sqrt(diagonal(gram)[:width])
    if not norms.all():
        norms[norms == 0] = 1.0
    matrix, right = gram[:width, :width] / (norms * norms[:, None]), gram[:width, width] / norms
    # Products lose half of the digits; the ridge, far below any noise, stands for them.
    diagonal(matrix)[:] += RIDGE
    scaled = None if near is None else _pivoted(matrix, right, near > 0)
    coef = (_non_negative(matrix, right) if scaled is None else scaled) / norms
    if not coef.max() <= LARGEST:
        triangle = np.linalg.cholesky(matrix)
        goal = np.linalg.solve(triangle, right)
        coef = lsq_linear(triangle.T, goal, bounds=(0, LARGEST * norms), method="bvls").x / norms
    return np.asarray(coef)


def _pivoted(matrix: Array, right: Array, passive: Array) -> Array | None:
    """Non-negative least squares by exchanging all wrong coefficients at once; None if that does not end soon.

    Block principal pivoting (Kim and Park: Fast nonnegative matrix factorization, SIAM J. Sci. Comput. 33, 2011).
    """
    least = 1e-12 * float(np.abs(right).max())
    for _ in range(EXCHANGES):
        chosen = passive.nonzero()[0]
        solution = np.zeros(len(right))
        solution[chosen], failed = _solved(matrix[chosen[:, None], chosen], right[chosen])
        if failed:
            return None
        # Passive ones must not be negative, and of the others none may wish to grow.
        wrong = np.where(passive, solution < 0, right - matrix @ solution > least)
        if not wrong.any():
            return solution
        passive = passive ^ wrong
    return None


def _solved(matrix: Array, right: Array) -> tuple[Array, bool]:
    """The solution of symmetric positive equations, and whether they are not; LAPACK without NumPy's checks."""
    if not len(matrix):
        return np.zeros_like(right), False
    _, solution, info = dposv(matrix, right)
    return np.asarray(solution), bool(info)


def _non_negative(matrix: Array, right: Array) -> Array:
    """Non-negative least squares from the normal equations, without a guess."""
    try:
        triangle = np.linalg.cholesky(matrix)
        return np.asarray(nnls(triangle.T, np.linalg.solve(triangle, right))[0])
    except (RuntimeError, np.linalg.LinAlgError):
        return np.asarray(lsq_linear(matrix, right, bounds=(0, np.inf), method="bvls").x)


def mean_loss(problem: Problem, residual: Array) -> float:
    """The mean error in the problem's own loss, without penalty."""
    scaled = residual / problem.unit
    return float(np.mean(scaled**2) if problem.squared else np.mean(np.abs(scaled)))


def _total(problem: Problem, residual: Array, coef: Array, theta: Array) -> float:
    return mean_loss(problem, residual) + problem.penalty.cost(coef, theta) + problem.prior_cost(theta)


@dataclass(frozen=True)
class Rounded:
    """The loss with a rounded corner, √(r² + δ²), and the least squares that follow it.

    Weights 1/√(r² + δ²) majorise the loss: safe, but slow, as the loss itself curves only where |r| is about δ. Weights
    of that curvature, with residuals that are stretched for the same slope, make Newton's step.
    """

    root: Array  # square roots of the weights that majorise
    mean: float
    share: Array | None = None  # how much of each weight is curvature; None: all of it

    def bent(self, least: float) -> tuple[Array, Array | float]:
        """Square roots of weights and by what residuals are stretched: from Newton's step (0) to the safe one (1)."""
        if self.share is None or least >= 1:
            return self.root, 1.0
        share = np.maximum(self.share, least)
        return self.root * np.sqrt(share), 1 / share


def rounded(problem: Problem, residual: Array, delta: float) -> Rounded:
    """The loss at these residuals with its corner rounded within `delta`."""
    scaled = residual / problem.unit
    square = scaled * scaled
    if problem.squared:
        return Rounded(np.sqrt(2.0) / problem.unit, float(square.mean()))
    square += delta**2
    norm = np.sqrt(square)
    return Rounded(np.sqrt(1 / norm) / problem.unit, float(norm.mean()), delta**2 / square)


def start(problem: Problem, theta: Array) -> PowersPoint:
    """The point at given powers: the coefficients come close to the best for the problem's loss."""
    basis, penalty, n = problem.basis(theta), problem.penalty, len(problem.y)
    coef, root, near = np.ones(basis.shape[1]), 1 / problem.unit, None
    for _ in range(1 if problem.squared else 3):
        coef = near = linear_part(problem.y, basis, root, n * penalty.weight(coef, penalty.coef), near)
        residual = problem.y - basis @ coef
        root = rounded(problem, residual, float(np.median(np.abs(residual / problem.unit))) + 1e-12).root
    return PowersPoint(theta, coef, basis, residual, _total(problem, residual, coef, theta))


def beside(problem: Problem, point: PowersPoint, theta: Array, delta: float) -> PowersPoint:
    """The point at other powers, coefficients with the weights of a point that is near."""
    basis, penalty = problem.basis(theta), problem.penalty
    ridge = len(problem.y) * penalty.weight(point.coef, penalty.coef)
    coef = linear_part(problem.y, basis, rounded(problem, point.residual, delta).root, ridge, point.coef)
    residual = problem.y - basis @ coef
    return PowersPoint(theta, coef, basis, residual, _total(problem, residual, coef, theta))


@dataclass(frozen=True)
class _Slope:
    """Curvature and gradient of the loss by the moving powers, the linear part projected out."""

    gram: Array
    gradient: Array


def _slope(problem: Problem, point: PowersPoint, root: Array, stretch: Array | float) -> _Slope:
    passive = (point.coef > 0).nonzero()[0]
    size, penalty, n = len(passive), problem.penalty, len(problem.y)
    slopes = problem.derivatives(point.basis, point.coef)
    stacked = np.empty((n, size + slopes.shape[1] + 1), order="F")
    np.multiply(point.basis[:, passive], root[:, None], out=stacked[:, :size])
    np.multiply(slopes, root[:, None], out=stacked[:, size:-1])
    np.multiply(point.residual * stretch, root, out=stacked[:, -1])
    gram = stacked.T @ stacked
    ridge = n * penalty.weight(point.coef, penalty.coef)[passive]
    gram[:size, -1] -= ridge * point.coef[passive]
    own = diagonal(gram)[:size]
    own[:] = (own + ridge) * (1 + RIDGE) + 1e-300
    projected, failed = _solved(gram[:size, :size], gram[:size, size:])
    if failed:
        projected = np.linalg.lstsq(gram[:size, :size], gram[:size, size:])[0]
    rest = gram[size:, size:] - gram[size:, :size] @ projected
    at, block = point.theta[problem.moved], rest[:-1, :-1]
    price, (usual, prior) = n * penalty.weight(at, penalty.power), problem.held
    held = 2 * n * prior
    gradient = rest[:-1, -1] - price * at + held * (usual - at)
    curvature = diagonal(block)
    curvature[:] = np.maximum(curvature, 0.0) + price + held
    return _Slope(block, gradient)


def _step(slope: _Slope, damping: float, point: PowersPoint, problem: Problem) -> Array:
    """The damped step in θ, inside the bounds; directions that lead out of them are frozen."""
    at, (low, high) = point.theta[problem.moved], problem.limits
    gradient, gram = slope.gradient, slope.gram.copy()
    stuck = np.where(gradient < 0, at <= low, at >= high)
    size = diagonal(gram)
    size += damping * np.maximum(size, 1e-12 * size.max(initial=0) + 1e-300)
    if stuck.any():
        gradient = gradient.copy()
        gram[stuck], gram[:, stuck], gradient[stuck] = 0.0, 0.0, 0.0
        gram[stuck, stuck] = 1.0
    move, failed = _solved(gram, gradient)
    if failed:
        move = np.linalg.lstsq(gram, gradient)[0]
    # A power that jumps by more than 1 has left the region where the slope means anything.
    move *= min(1.0, 1.0 / max(float(np.abs(move).max(initial=0)), 1e-300))
    theta = point.theta.copy()
    theta[problem.moved] = np.minimum(np.maximum(at + move, low), high)
    return theta


def _beyond_loss(problem: Problem, point: PowersPoint) -> float:
    """Penalty and prior, which the search lowers together with the loss."""
    return problem.penalty.cost(point.coef, point.theta) + problem.prior_cost(point.theta)


def _moved(problem: Problem, point: PowersPoint, loss: Rounded, caution: Caution) -> Iterator[Candidate]:
    """Candidates near a point, each more cautious than the last."""
    ridge = len(problem.y) * problem.penalty.weight(point.coef, problem.penalty.coef)
    while True:
        root, stretch = loss.bent(caution.least)
        slope = _slope(problem, point, root, stretch)
        theta = _step(slope, caution.damping, point, problem)
        basis = problem.basis(theta)
        coef = linear_part(problem.y + (stretch - 1) * point.residual, basis, root, ridge, point.coef)
        yield Candidate(PowersPoint(theta, coef, basis, problem.y - basis @ coef, np.nan), caution)
        caution = caution.more()


@dataclass(frozen=True)
class Caution:
    """How far steps are held back: the least share of a weight that counts as curvature, and the damping of powers."""

    least: float = 0.3
    damping: float = 1e-2

    def more(self) -> Caution:
        """After a step that has raised the cost."""
        return (
            replace(self, least=min(4 * self.least, 1.0))
            if self.least < 1
            else replace(self, damping=10 * self.damping)
        )

    def less(self) -> Caution:
        """After a step that has lowered the cost."""
        return Caution(max(self.least / 2, 0.01), max(self.damping / 5, 1e-12))


@dataclass(frozen=True)
class Candidate:
    """A point that a step leads to, and how cautious the step was."""

    point: PowersPoint
    caution: Caution


def descend(problem: Problem, point: PowersPoint, delta: float, iterations: int, tolerance: float) -> PowersPoint:
    """Levenberg-Marquardt over the powers, weights renewed at every step, until the cost stands still."""
    caution, still, loss = Caution(), 0, rounded(problem, point.residual, delta)
    cost = loss.mean + _beyond_loss(problem, point)
    for _ in range(iterations):
        for tried, candidate in enumerate(_moved(problem, point, loss, caution)):
            tried_loss = rounded(problem, candidate.point.residual, delta)
            lower = tried_loss.mean + _beyond_loss(problem, candidate.point)
            if lower <= cost * (1 + 1e-13) or tried == TRIES:
                break
        if lower > cost * (1 + 1e-13):
            break
        caution = candidate.caution.less() if tried == 0 else candidate.caution
        # A step near Newton's leaves far less to gain than it gained; a cautious one may leave as much.
        still = still + (2 if caution.least < 0.1 else 1) if cost - lower < tolerance * cost else 0
        point, loss, cost = candidate.point, tried_loss, lower
        if still >= 2:
            break
    return replace(point, cost=_total(problem, point.residual, point.coef, point.theta))
