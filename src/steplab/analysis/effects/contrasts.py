"""Marginal means, effects, interactions and trends of a fitted model, with intervals.

Every quantity is the logarithm of a time or of a ratio of times. On the log scale it is linear in the coefficients; on
the scale of seconds its gradient is that of the delta method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from steplab.analysis.effects.anova import Fit
from steplab.analysis.effects.findings import Effect, Interaction, Mean, Trend
from steplab.analysis.effects.layout import Factor, Layout, Slope
from steplab.analysis.effects.unequal_noise import UnequalNoise
from steplab.analysis.statistics.differences import ROUNDING, Difference, difference
from steplab.analysis.statistics.intervals import separate_quantiles, simultaneous_quantile
from steplab.core.trial import Level

Array = NDArray[np.float64]
CURVED = 0.01  # p below which a power law is not the whole story
FEWEST_FOR_TREND = 3


@dataclass(frozen=True)
class Marginal:
    """A fitted model as a giver of marginal means; `spread` is None where nothing estimates the noise.

    `noise` is there where configurations are not equally noisy.
    """

    fit: Fit
    plan: Layout
    logged: bool
    spread: float | None
    df: int
    noise: UnequalNoise | None = None

    def rows(self, members: tuple[int, ...]) -> Array:
        """The marginal means of one factor or of a pair, as linear functions of the coefficients."""
        factors = [self.plan.factors[at] for at in members]
        cells = list(product(*(range(len(factor.levels)) for factor in factors)))
        rows = np.zeros((len(cells), len(self.fit.at)))
        for at in self.fit.chosen:
            term = self.fit.design.terms[at]
            if term.name == "mean" or (term.factors and set(term.factors) <= set(members)):
                rows[:, self.fit.place(at)] = term.contrasts[_cells_of(term.factors, members, factors, cells)]
        return rows

    def logs(self, rows: Array) -> tuple[Array, Array]:
        """Logarithms of means and their gradients."""
        values = rows @ self.fit.beta
        return (values, rows) if self.logged else (np.log(values), rows / values[:, None])

    def positive(self, members: tuple[int, ...]) -> bool:
        """Whether the means can be times at all."""
        return self.logged or bool((self.rows(members) @ self.fit.beta > 0).all())

    def unit(self, gradients: Array) -> Array:
        """Gradients over independent unit normals: their lengths are standard errors."""
        if self.noise is not None:
            return self.noise.unit(gradients)
        rows: Array = (self.spread or 0.0) * solve_triangular(self.fit.factor[0], gradients.T, trans="T").T
        return rows

    def errors(self, gradients: Array) -> Array:
        """Standard errors."""
        return np.asarray(np.linalg.norm(self.unit(gradients), axis=1))

    def freedom(self, gradients: Array) -> Array:
        """Degrees of freedom of the standard errors."""
        if self.noise is not None:
            return self.noise.freedom(gradients)
        return np.full(len(gradients), float(self.df))

    def joint_quantiles(self, gradients: Array) -> Array | float:
        """How many standard errors hold all of several estimates at once."""
        if self.noise is not None:
            return separate_quantiles(self.unit(gradients), self.freedom(gradients))
        return simultaneous_quantile(self.unit(gradients), self.df)

    def halves(self, gradients: Array) -> Array:
        """Half the width of each one's own 95 % interval."""
        from scipy.special import stdtrit

        return np.asarray(stdtrit(self.freedom(gradients), 0.975) * self.errors(gradients))


def _cells_of(
    own: tuple[int, ...], members: tuple[int, ...], factors: Sequence[Factor], cells: Sequence[tuple[int, ...]]
) -> list[int]:
    """For each cell of `members`, the row of a term of some of these factors."""
    positions = []
    for cell in cells:
        row = 0
        for at in own:
            where = members.index(at)
            row = row * len(factors[where].levels) + cell[where]
        positions.append(row)
    return positions


def means(model: Marginal, members: tuple[int, ...]) -> list[Mean]:
    """The step time at each level of a factor, or at each combination of two, with its own 95 % interval."""
    factors = [model.plan.factors[at] for at in members]
    values, gradients = model.logs(model.rows(members))
    half = model.halves(gradients) if model.spread is not None else None
    names = tuple(factor.name for factor in factors)
    sizes = tuple(len(factor.levels) for factor in factors)
    counts = np.bincount(np.ravel_multi_index([factor.codes for factor in factors], sizes), minlength=len(values))
    means = []
    for at, cell in enumerate(product(*(factor.levels for factor in factors))):
        low, high = (None, None) if half is None else (_exp(values[at] - half[at]), _exp(values[at] + half[at]))
        means.append(Mean(names, cell, _exp(values[at]), low, high, int(counts[at])))
    return means


@dataclass(frozen=True)
class _Asked:
    """A question about a factor: an effect (level and reference) or a power (neither), its estimate and gradient."""

    factor: str
    value: float
    gradient: Array
    level: Level | None = None
    reference: Level | None = None
    straight: bool = True
    p_curved: float | None = None


def factor_findings(model: Marginal, members: Sequence[int], slopes: Sequence[int]) -> tuple[list[Effect], list[Trend]]:
    """Effects and powers of categories (`members`) and slopes (terms of the design), all intervals at once.

    Levels are compared with the first one, a slope's largest value with its smallest. Effects and powers are one
    family of questions, so that none is real by its power alone where its effects are not judged as strictly.
    """
    asked = [question for at in members for question in _levels_asked(model, at)]
    asked += [question for at in slopes if (question := _slope_asked(model, at)) is not None]
    asked += [question for at in members if (question := _power_asked(model, at)) is not None]
    asked += [question for at in slopes if (question := _slope_power_asked(model, at)) is not None]
    halves = _joint_halves(model, [question.gradient for question in asked])
    judged = [(question, difference(question.value, half), half) for question, half in zip(asked, halves, strict=True)]
    return (
        [_effect(question, verdict) for question, verdict, _ in judged if question.level is not None],
        [_trend(question, verdict, half) for question, verdict, half in judged if question.level is None],
    )


def _effect(asked: _Asked, difference: Difference) -> Effect:
    assert asked.level is not None and asked.reference is not None
    return Effect(asked.factor, asked.level, asked.reference, *_numbers(difference))


def _trend(asked: _Asked, difference: Difference, half: float) -> Trend:
    ends = asked.value - half, asked.value + half
    return Trend(asked.factor, asked.value, *ends, asked.straight, asked.p_curved, difference.differs)


def _levels_asked(model: Marginal, at: int) -> list[_Asked]:
    """Every level of a factor against the first."""
    factor = model.plan.factors[at]
    logs, slopes = model.logs(model.rows((at,)))
    first, *others = factor.levels
    return [
        _Asked(factor.name, float(logs[code] - logs[0]), slopes[code] - slopes[0], level, first)
        for code, level in enumerate(others, start=1)
    ]


def _slope_asked(model: Marginal, at: int) -> _Asked | None:
    """The largest value of a number that counts as one slope against its smallest."""
    slope = _slope_of(model, at)
    rows = np.zeros((2, len(model.fit.at)))
    rows[:, model.fit.place(0)] = 1.0
    rows[:, model.fit.place(at)] = np.array([[slope.values.min()], [slope.values.max()]])
    if not model.logged and not (rows @ model.fit.beta > 0).all():
        return None
    logs, gradients = model.logs(rows)
    return _Asked(slope.name, float(logs[1] - logs[0]), gradients[1] - gradients[0], slope.most, slope.least)


def _slope_of(model: Marginal, at: int) -> Slope:
    return model.plan.slopes[model.fit.design.terms[at].factors[0] - len(model.plan.factors)]


def interactions(model: Marginal, pairs: Sequence[tuple[int, int]]) -> list[Interaction]:
    """Every combination of two levels against what the two effects alone give, all intervals at once."""
    labels, values, gradients = [], [], []
    for pair in pairs:
        first, second = (model.plan.factors[at] for at in pair)
        rows = model.rows(pair).reshape(len(first.levels), len(second.levels), -1)
        for a, b in product(range(1, len(first.levels)), range(1, len(second.levels))):
            beyond = _beyond(model, rows[a, b], rows[a, 0], rows[0, b], rows[0, 0])
            if beyond is None:
                continue
            levels = (first.levels[a], second.levels[b]), (first.levels[0], second.levels[0])
            labels.append(((first.name, second.name), *levels))
            values.append(beyond[0])
            gradients.append(beyond[1])
    differences = [difference(value, half) for value, half in zip(values, _joint_halves(model, gradients), strict=True)]
    return [
        Interaction(pair, levels, references, *_numbers(judged))
        for (pair, levels, references), judged in zip(labels, differences, strict=True)
    ]


def _numbers(difference: Difference) -> tuple[float, float, float, bool]:
    assert difference.low is not None and difference.high is not None
    return difference.ratio, difference.low, difference.high, difference.differs


def _beyond(model: Marginal, both: Array, first: Array, second: Array, neither: Array) -> tuple[float, Array] | None:
    """Logarithm of the combination's time over what the two effects alone give, and its gradient."""
    alone = first + second - neither
    if model.logged:
        return float((both - alone) @ model.fit.beta), both - alone
    time, expected = float(both @ model.fit.beta), float(alone @ model.fit.beta)
    return (float(np.log(time / expected)), both / time - alone / expected) if min(time, expected) > 0 else None


def _joint_halves(model: Marginal, gradients: Sequence[Array]) -> list[float]:
    """Half the widths of intervals that hold all at once."""
    if not gradients:
        return []
    stacked = np.array(gradients)
    return [float(half) for half in model.joint_quantiles(stacked) * model.errors(stacked)]


def _power_asked(model: Marginal, at: int) -> _Asked | None:
    """The power law through a numeric factor's marginal means, and whether it is all there is."""
    from scipy.stats import f

    factor = model.plan.factors[at]
    numbers = [level for level in factor.levels if isinstance(level, int | float) and not isinstance(level, bool)]
    if len(numbers) < max(FEWEST_FOR_TREND, len(factor.levels)) or min(numbers) <= 0:
        return None
    x = np.log(np.array(numbers, dtype=float))
    logs, gradients = model.logs(model.rows((at,)))
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    # What a straight line leaves of the means, tested as one hypothesis: contrasts orthogonal to 1 and x.
    rest = np.linalg.svd(np.vstack([np.ones_like(x), x]))[2][2:]
    bent, spread = rest @ logs, model.unit(rest @ gradients)
    if model.spread and (np.abs(bent) > ROUNDING).any():
        size = float(bent @ np.linalg.solve(spread @ spread.T, bent)) / len(bent)
        p: float | None = float(f.sf(size, len(bent), float(model.freedom(rest @ gradients).min())))
    else:
        p = None
    straight = p >= CURVED if p is not None else bool((np.abs(bent) <= ROUNDING).all())
    return _Asked(factor.name, float(weights @ logs), weights @ gradients, straight=straight, p_curved=p)


def _slope_power_asked(model: Marginal, at: int) -> _Asked | None:
    """The power of a number that counts as one slope (term `at` of the design), where the analysis is in logarithms."""
    slope = _slope_of(model, at)
    if not (model.logged and slope.logged):
        return None
    row = np.zeros(len(model.fit.at))
    row[model.fit.place(at)] = 1.0 / slope.spread
    return _Asked(slope.name, float(row @ model.fit.beta), row)


def _exp(value: float) -> float:
    return float(np.exp(value))
