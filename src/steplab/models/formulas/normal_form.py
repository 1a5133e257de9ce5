"""The search for a performance model normal form: which terms, and their coefficients.

t = c_0 + Σ_k c_k · Π_j x_j^(i_kj) · log2(x_j)^(l_kj), with i and l from small sets (Calotoiu, Hoefler, Poke,
Wolf: Using automated performance modeling to find scalability bugs in complex codes, SC 2013). Several
parameters: the best term of each one alone, then the best way to add and multiply them (Calotoiu and others:
Fast multi-parameter performance modeling, CLUSTER 2016).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from steplab.models.columns.meaning import find_parts
from steplab.models.formulas.formula import Node, column, number, op, power
from steplab.models.held_out.folds import folds
from steplab.models.held_out.ranges import Split, upper_ranges

Array = np.ndarray
# Extra-P's exponents up to quadratic growth, and two falling ones for strong scaling.
EXPONENTS = (-1, -1 / 2, 0, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4, 1, 5 / 4, 4 / 3, 3 / 2, 5 / 3, 7 / 4, 2)
LOGARITHMS = (0, 1, 2)
ROUNDS = 2


@dataclass(frozen=True)
class Simple:
    """x^i · log2(x)^l of one column."""

    column: str
    exponent: float
    logarithm: int

    def values(self, frame: pd.DataFrame) -> Array:
        """The term's value without its coefficient."""
        x = frame[self.column].to_numpy(float)
        with np.errstate(all="ignore"):
            return np.asarray(x**self.exponent * (np.log2(x) ** self.logarithm if self.logarithm else 1.0))

    def node(self) -> Node:
        """The term as a part of a formula."""
        base = column(self.column) if self.exponent == 1 else power(self.column, self.exponent)
        log = op("log2", column(self.column))
        log = log if self.logarithm == 1 else op("pow", log, number(self.logarithm))
        if not self.logarithm:
            return base
        return log if self.exponent == 0 else op("mul", base, log)


Term = tuple[Simple, ...]


def candidates(frame: pd.DataFrame, name: str, *, steepest: float) -> list[Simple]:
    """The terms that have a non-negative value on all rows of a column."""
    low = float(frame[name].min())
    exponents = [i for i in EXPONENTS if i <= steepest and (low > 0 or i > 0)]
    logs = LOGARITHMS if low >= 1 else (0,)
    return [Simple(name, i, j) for i in exponents for j in logs if i or j]


def design(frame: pd.DataFrame, terms: Sequence[Term]) -> Array:
    """A constant and a column for each term."""
    columns = [np.prod([simple.values(frame) for simple in term], axis=0) for term in terms]
    return np.column_stack([np.ones(len(frame)), *columns])


def solve(A: Array, y: Array, weight: Array) -> Array:
    """Non-negative coefficients with the least squared relative error."""
    scale = np.abs(A * weight[:, None]).max(0)
    scale[scale == 0] = 1.0
    # A triangle with as many rows as unknowns holds the same problem.
    Q, R = np.linalg.qr(A * weight[:, None] / scale)
    return np.asarray(nnls(R, Q.T @ (y * weight))[0] / scale)


def _error(A: Array, y: Array, weight: Array, splits: Sequence[Split]) -> float:
    errors = []
    for train, test in splits:
        weights = solve(A[train], y[train], weight[train])
        errors.append(float(np.mean(np.abs(A[test] @ weights - y[test]) * weight[test])))
    return float(np.mean(errors))


def search(frame: pd.DataFrame, numeric: Sequence[str], y: Array, weight: Array, groups: Array | None) -> list[Term]:
    """The terms with the least error, half of it on random folds and half on held-out upper ranges."""
    varying = [name for name in numeric if frame[name].nunique() > 1]
    random = folds(len(y), groups, 4)
    ranges = upper_ranges(frame, varying)
    # The cost of a step is at most linear in batch, workers and nodes; a steeper term is noise that explodes.
    scale = find_parts(frame, varying).columns

    @cache  # the rounds ask again for much of what they have asked before
    def error(terms: tuple[Term, ...]) -> float:
        A = design(frame, terms)
        if not np.isfinite(A).all():
            return np.inf
        inside = _error(A, y, weight, random)
        return inside if not ranges else (inside + _error(A, y, weight, ranges)) / 2

    best: dict[str, Simple] = {}
    for _ in range(ROUNDS):
        for name in varying:
            others = [(simple,) for other, simple in best.items() if other != name]
            options = candidates(frame, name, steepest=1 if name in scale else max(EXPONENTS))
            if options:
                best[name] = min(options, key=lambda simple: error((*others, (simple,))))
    return min(_structures(best), key=lambda terms: error(tuple(terms)))


def _structures(best: Mapping[str, Simple]) -> list[list[Term]]:
    """Sums, products and mixtures of the best terms, and simpler models without some of them."""
    terms = list(best.values())
    structures: list[list[Term]] = [[]]
    for size in range(1, min(len(terms), 4) + 1):
        for chosen in combinations(terms, size):
            alone: list[Term] = [(simple,) for simple in chosen]
            structures.append(alone)
            if size > 1:
                structures += [[tuple(chosen)], [*alone, tuple(chosen)]]
                structures += [[(simple,), tuple(chosen)] for simple in chosen]
    return structures if len(terms) <= 4 else [*structures, [(simple,) for simple in terms]]
