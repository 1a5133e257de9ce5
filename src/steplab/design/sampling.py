"""What the drawing designs share: points of the unit cube as levels, and drawing until there are enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from steplab.design.configurations import Column, Configurations, grid, small_type
from steplab.design.possible import Possible
from steplab.study.sections import Factor, Levels, Range, Study

Points = npt.NDArray[np.float64]  # a row for each configuration, a column for each factor, from 0 to 1

_FRUITLESS, _FRUITLESS_POINTS = 50, 2_000_000
_MOST_POINTS = 20_000_000  # drawn in all
_COUNTABLE = 1_000_000  # combinations that are looked at one by one to know how many can be drawn


def column_at(factor: Factor, u: npt.NDArray[np.float64]) -> Column:
    """A factor's levels at positions between 0 and 1.

    >>> column = column_at((32, 64, 128), np.array([0.5]))
    >>> column.levels[column.codes[0]]
    64
    """
    if isinstance(factor, tuple):
        codes = np.minimum(u * len(factor), len(factor) - 1).astype(small_type(len(factor)))
        return Column(factor, codes)
    levels, codes = np.unique(_values(factor, u), return_inverse=True)
    return Column(levels.tolist(), codes.astype(small_type(len(levels))))


def _values(span: Range, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
    end = span.high + (1 if span.integer else 0)
    if span.scale == "log":
        # By `math`, whose last digit is the same everywhere: a trial's id depends on it.
        powers = math.log(span.low) + u * (math.log(end) - math.log(span.low))
        values = np.fromiter(map(math.exp, powers.tolist()), np.float64, len(u))
    else:
        values = span.low + u * (end - span.low)
    return np.minimum(values.astype(np.int64), int(span.high)) if span.integer else values


def collect(study: Study, batch: Callable[[], Points], possible: Possible, number: int | None = None) -> Configurations:
    """Batches of points until so many different possible configurations are there, or there are no more."""
    n = number or study.design.n or 1
    points, new = _new(study, np.empty((0, len(study.factors))), batch(), possible, n)
    enough = n if len(new) == n else min(n, _existing(study, possible))
    drawn, fruitless = n, 0
    while len(new) < enough and drawn < _MOST_POINTS and fruitless < _fruitless(n):
        before = len(new)
        points, new = _new(study, points, batch(), possible, n)
        drawn, fruitless = drawn + n, fruitless + 1 if len(new) == before else 0
    return new


def _fruitless(n: int) -> int:
    """Batches without a new configuration after which the space counts as exhausted: of large ones fewer are enough."""
    return max(1, min(_FRUITLESS, _FRUITLESS_POINTS // n))


def _new(study: Study, points: Points, drawn: Points, possible: Possible, n: int) -> tuple[Points, Configurations]:
    """The points with those drawn that are possible and different, at most n; and their configurations."""
    configurations = _at(study, drawn)
    mask = possible(configurations)
    if len(points):
        drawn, mask = np.concatenate([points, drawn]), np.concatenate([np.ones(len(points), bool), mask])
        configurations = _at(study, drawn)
    kept = np.flatnonzero(mask)
    rows = kept[np.sort(configurations.take(kept).distinct(study.factors).first)[:n]]
    return drawn[rows], configurations.take(rows)


def _at(study: Study, points: Points) -> Configurations:
    columns = zip(study.factors.items(), points.T, strict=True)
    return Configurations({name: column_at(factor, u) for (name, factor), u in columns})


def _existing(study: Study, possible: Possible) -> int:
    """How many different configurations can be drawn, where that can be counted; otherwise more than anyone draws."""
    sizes = {name: _size(factor) for name, factor in study.factors.items()}
    if math.prod(sizes.values()) > _COUNTABLE:
        return _MOST_POINTS
    levels: Mapping[str, Levels] = {name: _all_levels(factor) for name, factor in study.factors.items()}
    return int(possible(grid(levels)).sum())


def _size(factor: Factor) -> float:
    if isinstance(factor, tuple):
        return len(factor)
    return factor.high - factor.low + 1 if factor.integer else math.inf


def _all_levels(factor: Factor) -> Levels:
    return factor if isinstance(factor, tuple) else tuple(range(int(factor.low), int(factor.high) + 1))
