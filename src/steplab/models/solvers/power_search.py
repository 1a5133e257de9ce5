"""Where the search for powers starts: a convex dictionary of powers first, then seeded and mirrored starts.

A coefficient that is not negative makes the sign of a power decide whether a term rises or falls, so each
factor has two valleys. Non-negative least squares over a grid of powers is convex and finds the right ones
at once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steplab.models.solvers.varpro import (
    USUAL_ERROR,
    Array,
    PowersPoint,
    Problem,
    beside,
    descend,
    mean_loss,
    rounded,
    start,
)

GRID = np.array([-2.0, -0.5, 0.5, 2.0])
FINE = np.concatenate([np.linspace(-5, -0.2, 25), np.linspace(0.2, 5, 25)])
SCREEN_ROWS = 300
MIRROR_ROWS = 1500
DICTIONARY_ROWS, DICTIONARY_STEPS = 200, 3
# Every start takes so many steps; the best goes on and takes more.
RACE, SCREEN = 1, 5
# The corner of the absolute value is rounded within this share of the median error; the mean error that this
# costs is below 0.1 %, and without it the search would not come to rest.
ROUNDING = 0.2
# With n rows, parameters are then off by about √(2n·FINISHED) of their standard errors, far below one.
FINISHED = 5e-8
# A whole power of a factor with two values must lower the cost by this share to be taken instead of none.
CLEARLY = 1.02


def _wide(problem: Problem, theta: Array) -> tuple[Problem, Array]:
    """The problem with every intrinsic factor at every power of the grid, extrinsic powers free."""
    n, g = problem.inner.shape[1], len(GRID)
    allowed = np.clip(np.tile(GRID, n), np.repeat(problem.low[:n], g), np.repeat(problem.high[:n], g))
    wide = replace(
        problem, inner=np.repeat(problem.inner, g, axis=1), inner_on=np.repeat(problem.inner_on, g, axis=1),
        low=np.concatenate([allowed, problem.low[n:]]), high=np.concatenate([allowed, problem.high[n:]]),
        moving=np.concatenate([np.zeros(n * g, bool), problem.moving[n:]]), usual=None,
    )  # fmt: skip
    return wide, np.concatenate([allowed, theta[n:]])


def _closest_power(log: Array, on: Array, effect: Array, low: float, high: float) -> float:
    """The single power whose curve resembles a factor's effect most."""
    powers = FINE[(low <= FINE) & (high >= FINE)]
    curves = np.exp(np.outer(log, powers)) * on[:, None]
    curves = curves - curves.mean(axis=0)
    sizes = np.sqrt((curves**2).sum(axis=0)) + 1e-300
    return float(powers[np.argmax(curves.T @ (effect - effect.mean()) / sizes)])


def dictionary_start(problem: Problem, theta: Array) -> Array:
    """Powers from non-negative least squares over the grid of powers."""
    wide, first = _wide(problem, theta)
    best = descend(wide, start(wide, first), float(np.median(np.abs(problem.y))) or 1.0, DICTIONARY_STEPS, 1e-2)
    n, g = problem.inner.shape[1], len(GRID)
    guess = np.concatenate([theta[:n], best.theta[n * g :]])
    for i in range(n):
        powers, coef = best.theta[i * g : (i + 1) * g], best.coef[i * g : (i + 1) * g]
        if coef.any():
            log, on = problem.inner[:, i], problem.inner_on[:, i]
            effect = (np.exp(np.outer(log, powers)) * on[:, None]) @ coef
            power = _closest_power(log, on, effect, problem.low[i], problem.high[i])
            guess[i] = power if problem.moving[i] else np.sign(power)
    return guess


def _thinned(problem: Problem, rows: int) -> Problem:
    """The problem on at most that many of its rows, evenly spread."""
    count = len(problem.y)
    return problem if count <= rows else problem.rows(np.linspace(0, count - 1, rows).astype(int))


def _default(problem: Problem) -> Array:
    n = problem.inner.shape[1]
    theta = np.concatenate([np.ones(n), np.zeros(problem.outer.shape[1])])
    return np.asarray(np.clip(theta, problem.low, problem.high))


def _starts(problem: Problem, count: int, rng: np.random.Generator) -> list[Array]:
    """A start from the dictionary of powers, and random ones around it."""
    first = dictionary_start(_thinned(problem, DICTIONARY_ROWS), _default(problem))
    starts, searched = [first], int(problem.moving.sum())
    for _ in range(count):
        near = first.copy()
        near[problem.moving] *= rng.lognormal(0, 0.4, searched)
        near[problem.moving] += rng.normal(0, 0.1, searched)
        starts.append(np.clip(near, problem.low, problem.high))
    return starts


def _raced(problem: Problem, starts: list[Array]) -> Array:
    """The powers from which the search goes on: those that are best after a step from each start."""
    if len(starts) == 1:
        return starts[0]
    return min((_screen(problem, theta, RACE) for theta in starts), key=lambda point: point.cost).theta


def _rounding(point: PowersPoint, problem: Problem, share: float) -> float:
    error = float(np.median(np.abs(point.residual / problem.unit)))
    return share * error + 1e-9 * float(np.mean(np.abs(problem.y / problem.unit))) + 1e-300


def _screen(problem: Problem, theta: Array, iterations: int) -> PowersPoint:
    problem = problem.held_near(theta)
    point = start(problem, theta)
    return descend(problem, point, _rounding(point, problem, 1.0), iterations, 1e-4)


def _mirrored(problem: Problem, best: PowersPoint) -> PowersPoint:
    """The best point, or a better one in which a weak factor's power stands on the other side of zero."""
    n = problem.inner.shape[1]
    effects = (best.basis[:, :n] * best.coef[:n]).std(axis=0)
    for i in np.flatnonzero(effects < best.residual.std()).tolist():
        for power in (-1.0, 1.0):
            silent = best.coef[i] == 0 and not _would_speak(problem, best, i, power)
            if problem.low[i] <= power and not silent and (best.coef[i] == 0 or power * best.theta[i] <= 0):
                best = _other_side(problem, best, i, power)
    return best


def _would_speak(problem: Problem, best: PowersPoint, factor: int, power: float) -> bool:
    """Whether a factor without a coefficient would get one at that power: the residuals rise with its term."""
    weights = rounded(problem, best.residual, _rounding(best, problem, 1.0)).root ** 2
    return float(problem.term(best.theta, factor, power) @ (weights * best.residual)) > 0


def _other_side(problem: Problem, best: PowersPoint, factor: int, power: float) -> PowersPoint:
    """The point, or a better one with that power of one factor."""
    theta = best.theta.copy()
    theta[factor] = power
    delta = _rounding(best, problem, 1.0)
    other = beside(problem, best, theta, delta)
    # A term that stays silent there has no slope either: nothing could become better.
    if other.coef[factor] > 0:
        other = descend(problem, other, delta, 5, 1e-4)
    return other if other.cost < best.cost * (1 - 1e-6) else best


def _with_own_error(problem: Problem, point: PowersPoint) -> Problem:
    """The prior weighed against the errors that there are, if they are below the usual ones."""
    if problem.usual is None:
        return problem
    share = mean_loss(problem, point.residual) / (USUAL_ERROR**2 if problem.squared else USUAL_ERROR)
    return replace(problem, pull=problem.pull * min(share, 1.0))


def search(
    problem: Problem, *, seed: int, starts: int, near: Array | None = None, finished: float = FINISHED
) -> PowersPoint:
    """The best point from many starts; `near` starts from known powers only (warm start)."""
    fixed = _fixed_outer(problem)
    if near is None and len(fixed):
        return _best_whole_powers(problem, fixed, seed, starts, finished)
    return _search(problem, seed, starts, near, finished)


def _fixed_outer(problem: Problem) -> Array:
    """The places of extrinsic factors with two values: their powers are not searched for but chosen."""
    n = problem.inner.shape[1]
    return np.asarray(n + np.flatnonzero(~problem.moving[n:]))


def _best_whole_powers(problem: Problem, fixed: Array, seed: int, starts: int, finished: float) -> PowersPoint:
    """Powers −1, 0 or 1 of factors with two values, within bounds; 0 unless another is clearly better."""
    few = _thinned(problem, SCREEN_ROWS)
    theta = _default(problem)
    for at in fixed.tolist():
        points = []
        for power in (p for p in (0.0, 1.0, -1.0) if problem.low[at] <= p <= problem.high[at]):
            tried = theta.copy()
            tried[at] = power
            points.append(_screen(few, dictionary_start(_thinned(few, DICTIONARY_ROWS), tried), 5))
        cost = [point.cost * (1.0 if point.theta[at] == 0 else CLEARLY) for point in points]
        theta[at] = points[int(np.argmin(cost))].theta[at]
    whole = problem.low.copy(), problem.high.copy()
    for end in whole:
        end[fixed] = theta[fixed]
    return _search(replace(problem, low=whole[0], high=whole[1]), seed, starts, None, finished)


def _search(problem: Problem, seed: int, starts: int, near: Array | None, finished: float) -> PowersPoint:
    if near is None:
        few = _thinned(problem, SCREEN_ROWS)
        near = _raced(few, _starts(few, starts, np.random.default_rng(seed)))
        problem = problem.held_near(near)
        some = _thinned(problem, MIRROR_ROWS)
        point = _mirrored(some, _screen(some, near, SCREEN))
        if some is not problem:
            point = _roughly(problem, point.theta)
    else:
        problem = problem.held_near(near)
        point = _roughly(problem, near)
    problem = _with_own_error(problem, point)
    return descend(problem, point, _rounding(point, problem, ROUNDING), 150, finished)


def _roughly(problem: Problem, theta: Array) -> PowersPoint:
    """The best point near some powers for the loss with its corner widely rounded, from which the search ends soon."""
    return _screen(problem, theta, 150)
