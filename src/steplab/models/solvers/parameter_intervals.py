"""What the data say about each parameter of the generic expression: an interval, or nothing.

The covariance is the sandwich of an M-estimator (Huber: The behavior of maximum likelihood estimates under
nonstandard conditions, 1967); for absolute error the density of the residuals at 0 takes the place of their
variance (Koenker: Quantile Regression, 2005, chapter 3). Coefficients above 0 have intervals on a logarithmic
scale. A direction in which the Jacobian is flat, or an interval too wide to be of use, means: not identified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from steplab.models.formulas.expression import Columns, Expression, log_count, log_per_node, more_than_one
from steplab.models.held_out.intervals import best_power, floor_of, scale_of
from steplab.models.parameter import Parameter
from steplab.models.solvers.prepare import distinct_values

Array = np.ndarray
FLAT = 1e-6  # a singular value below this share of the largest is a flat direction
WIDEST_FACTOR = 1.8  # a coefficient known worse than within this factor is not identified
WIDEST_POWER = 0.5


@dataclass(frozen=True)
class Slope:
    """One parameter: its names, value, scale of its interval, and the derivative of the prediction by it."""

    name: str
    symbol: str
    value: float
    logarithmic: bool
    bounds: tuple[float, float]
    column: Array


def slopes(expression: Expression, frame: Columns, predicted: Array, *, ours: bool = True) -> list[Slope]:
    """The parameters that are in play, each with its column of the Jacobian; `ours`: two values have no power."""
    outer, terms = expression.outer(frame), expression.terms(frame)
    inner = predicted - expression.constant - expression.of_counts(frame)
    distinct = distinct_values({c: np.asarray(frame[c]) for c in (*expression.coef, *expression.scale)})
    derivatives = []
    for i, (c, a) in enumerate(expression.coef.items()):
        if distinct[c] < 2:
            continue
        if a == 0:
            # At the bound the term is silent, yet what it might have been adds to the doubt about the others.
            derivatives.append(Slope(c, "a", 0.0, False, (0, np.inf), terms[:, i] * outer))
        else:
            own = a * terms[:, i] * outer
            derivatives.append(Slope(c, "a", a, True, (0, np.inf), own))
            if distinct[c] > 2:
                derivatives.append(Slope(c, "p", expression.power[c], False, (-5, 5), own * _log(frame, c)))
    if expression.base > 0:
        derivatives.append(Slope("base", "b", expression.base, True, (0, np.inf), expression.base * outer))
    for c, values in expression.levels.items():
        for name, value in list(values.items())[1:]:
            chosen = (np.asarray(frame[c]) == name) * outer
            derivatives.append(Slope(f"{c}={name}", "d", value, False, (-np.inf, np.inf), chosen))
    derivatives += [Slope(c, "q", q, False, (-5, 5), inner * _log(frame, c))
             for c, q in expression.scale.items() if distinct[c] > (2 if ours else 1)]  # fmt: skip
    for c, cost in expression.steps.items():
        if cost > 0:
            own = cost * more_than_one(np.asarray(frame[c], float))
            derivatives.append(Slope(f"{c} > 1", "s", cost, True, (0, np.inf), own))
    for c, cost in expression.logs.items():
        if cost > 0:
            own = cost * log_count(np.asarray(frame[c], float))
            derivatives.append(Slope(f"ln {c}", "g", cost, True, (0, np.inf), own))
    shared = expression.per_node
    if shared is not None and shared.cost > 0:
        own = shared.cost * log_per_node(frame, shared.workers, shared.nodes)
        derivatives.append(Slope(f"ln {shared.name}", "g", shared.cost, True, (0, np.inf), own))
    if expression.constant > 0:
        constant = expression.constant
        derivatives.append(Slope("constant", "C", constant, True, (0, np.inf), np.full(len(outer), constant)))
    return derivatives


def _log(frame: Columns, c: str) -> Array:
    values = np.asarray(frame[c], float)
    return np.log(np.where(values > 0, values, 1.0))


@dataclass(frozen=True)
class Evidence:
    """How each row speaks about the parameters: Jacobian, curvature and score of its loss."""

    jacobian: Array
    curvature: Array
    score: Array


def evidence(jacobian: Array, predicted: Array, y: Array, unit: Array, squared: bool) -> Evidence:
    """Curvature and score of each row's loss at the fit."""
    residual = y - predicted
    if squared:
        return Evidence(jacobian, np.ones(len(y)), residual)
    floor = floor_of(y)
    spread = scale_of(predicted, best_power(np.abs(residual), predicted, floor), floor)
    density = _density_at_zero(residual / spread) / spread
    return Evidence(jacobian, 2 * density / unit, np.sign(residual) / unit)


def _density_at_zero(u: Array) -> float:
    """The density of residuals at 0, by a Gaussian kernel."""
    quartile = float(np.subtract(*np.percentile(u, [75, 25]))) / 1.349
    width = 0.9 * (min(float(np.std(u)), quartile) or float(np.std(u)) or 1e-12) * len(u) ** -0.2
    return float(np.mean(np.exp(-0.5 * (u / width) ** 2)) / (width * np.sqrt(2 * np.pi)))


@dataclass(frozen=True)
class Bread:
    """The inverse curvature without flat directions, how far parameters lie in these, and each row's leverage."""

    inverse: Array
    flatness: Array
    leverage: Array


def bread(known: Evidence) -> Bread:
    """The bread of the sandwich: what the curvature of the loss says about the parameters."""
    rows = known.jacobian * np.sqrt(known.curvature)[:, None]
    norms = np.sqrt((rows**2).sum(axis=0))
    norms[norms == 0] = 1.0
    _, sizes, directions = np.linalg.svd(np.linalg.qr(rows / norms, mode="r"))
    # Fewer rows than parameters: what no row speaks of is flat.
    sizes = np.concatenate([sizes, np.zeros(len(directions) - len(sizes))])
    steep = sizes > FLAT * sizes.max(initial=1e-300)
    flatness = (directions[~steep] ** 2).sum(axis=0)
    inverse = (directions[steep].T / sizes[steep] ** 2) @ directions[steep] / np.outer(norms, norms)
    return Bread(inverse, flatness, ((known.jacobian @ inverse) * known.jacobian).sum(axis=1))


def covariance(known: Evidence, groups: Array | None, bread: Bread) -> Array:
    """The sandwich covariance of the parameters, rows of a group together."""
    # As in HC3 (MacKinnon and White, 1985): rows that pull the fit towards themselves look too good.
    scores = known.jacobian * (known.score / (1 - _share(known, bread)))[:, None]
    if groups is not None:
        scores = pd.DataFrame(scores).groupby(groups).sum().to_numpy()
    return np.asarray(bread.inverse @ (scores.T @ scores) @ bread.inverse)


def _share(known: Evidence, bread: Bread) -> Array:
    """How much of each row's fit is the row's own doing."""
    return np.asarray(np.clip(bread.leverage * known.curvature, 0, 0.95))


def held_out_shift(known: Evidence, bread: Bread) -> Array:
    """How far each row's residual grows when the row is left out, to first order."""
    return np.asarray(bread.leverage * known.score / (1 - _share(known, bread)))


def parameters(slopes: list[Slope], covered: Array, flatness: Array, degrees: int) -> list[Parameter]:
    """Each parameter with its 95 % interval, marked where the data do not determine it."""
    t = float(stdtrit(max(degrees, 1), 0.975))
    told = []
    for slope, variance, flat in zip(slopes, np.diag(covered), flatness, strict=True):
        half = t * float(np.sqrt(max(variance, 0))) if flat < 1e-6 else np.inf
        told.append(_parameter(slope, half, degrees))
    return told


def _parameter(slope: Slope, half: float, degrees: int) -> Parameter:
    low, high = slope.value - half, slope.value + half
    if slope.logarithmic:
        with np.errstate(over="ignore"):
            low, high = slope.value * float(np.exp(-half)), slope.value * float(np.exp(half))
        fine = half <= np.log(WIDEST_FACTOR)
    elif slope.symbol in ("a", "d"):
        fine = half <= 0.4 * abs(slope.value)
    else:
        # At a bound the data ask for more than the bound allows.
        fine = half <= WIDEST_POWER and abs(slope.value) < slope.bounds[1]
    low, high = max(low, slope.bounds[0]), min(high, slope.bounds[1])
    ends = [float(end) if np.isfinite(end) else None for end in (low, high)]
    return Parameter(slope.name, slope.symbol, slope.value, ends[0], ends[1], bool(fine and degrees > 0))
