"""Linear models of a designed experiment by the algebra of its indicators.

Each term (block, factor, pair of factors) is a sparse matrix of indicators times a small matrix of contrasts that sum
to zero over the levels (sum coding, here orthonormal). Two things follow: the intercept plus a factor's own columns is
its marginal mean with all other factors weighted equally, and tests of a term's columns are type III tests. The Gram
matrix is made from counts, so 100,000 trials never become a dense matrix of dummies.

Searle, Linear Models for Unbalanced Data (1987); Langsrud, Statistics and Computing 13 (2003) on types II and III.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from steplab.analysis.effects.layout import Codes, Layout

Array = NDArray[np.float64]
SINGULAR = 1e-8  # relative size below which a direction of a term is no news
ROWS = 8192  # rows that are made dense at once


@dataclass(frozen=True)
class Term:
    """A term of the model: `indicators` (trials × cells of the term) times `contrasts` (cells × df)."""

    name: str
    factors: tuple[int, ...]
    indicators: sparse.csr_array
    contrasts: Array

    @property
    def df(self) -> int:
        """Columns of the term."""
        return int(self.contrasts.shape[1])

    def contains(self, other: Term) -> bool:
        """Whether this is an interaction of the other term's factors with more."""
        return bool(other.factors) and set(other.factors) < set(self.factors)


def intercept(rows: int) -> Term:
    """The grand mean."""
    return Term("mean", (), _indicators(np.zeros(rows, dtype=np.int64), 1), np.ones((1, 1)))


def block_term(plan: Layout) -> Term:
    """The replicates as blocks."""
    return Term("block", (), _indicators(plan.block, plan.blocks), _zero_sum(plan.blocks))


def factor_term(plan: Layout, members: tuple[int, ...]) -> Term:
    """A main effect or an interaction of the factors at these positions."""
    factors = [plan.factors[at] for at in members]
    codes = reduce(lambda codes, factor: codes * len(factor.levels) + factor.codes, factors, np.zeros_like(plan.cell))
    contrasts: Array = np.ones((1, 1))
    for factor in factors:
        contrasts = np.asarray(np.kron(contrasts, _zero_sum(len(factor.levels))), dtype=np.float64)
    name = " × ".join(factor.name for factor in factors)
    return Term(name, members, _indicators(codes, contrasts.shape[0]), contrasts)


def slope_term(plan: Layout, at: int) -> Term:
    """A numeric factor as one column; it is named by a position beyond the categories'."""
    slope = plan.slopes[at]
    column = sparse.csr_array(slope.values[:, None])
    return Term(slope.name, (len(plan.factors) + at,), column, np.ones((1, 1)))


def _indicators(codes: Codes, width: int) -> sparse.csr_array:
    rows = codes.size
    return sparse.csr_array((np.ones(rows), codes, np.arange(rows + 1)), shape=(rows, width))


def _zero_sum(levels: int) -> Array:
    """Orthonormal contrasts that sum to zero over the levels."""
    contrasts: Array = linalg.helmert(levels).T if levels > 1 else np.zeros((1, 0))
    return contrasts


class ModelMatrix:
    """The Gram matrix of some terms."""

    def __init__(self, terms: Sequence[Term]):
        self.terms = list(terms)
        self.indicators = sparse.csr_array(sparse.hstack([term.indicators for term in terms]))
        self.contrasts: Array = linalg.block_diag(*(term.contrasts for term in terms))
        counts = (self.indicators.T @ self.indicators).toarray()
        self.gram: Array = self.contrasts.T @ counts @ self.contrasts
        ends = np.cumsum([0, *(term.df for term in terms)])
        self.slices = [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def columns(self, chosen: Sequence[int]) -> NDArray[np.int64]:
        """The columns of the terms at these positions."""
        parts = [np.arange(self.slices[at].start, self.slices[at].stop) for at in chosen]
        return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, dtype=np.int64)

    def news(self, at: int, given: Sequence[int]) -> int:
        """How many of a term's degrees of freedom the given terms do not hold already."""
        own, known = self.columns([at]), self.columns(given)
        block = self.gram[np.ix_(own, own)]
        cross = self.gram[np.ix_(known, own)]
        left = block - cross.T @ linalg.solve(self.gram[np.ix_(known, known)], cross, assume_a="pos")
        sizes = linalg.eigvalsh(left)
        return int((sizes > SINGULAR * max(float(np.trace(block)) / max(len(own), 1), 1e-300)).sum())


class Fit:
    """Least squares of a response on some terms of a design, all of full rank."""

    def __init__(self, design: ModelMatrix, chosen: Sequence[int], response: Array):
        self.design, self.chosen = design, sorted(chosen)
        self.at = design.columns(self.chosen)
        self.factor = linalg.cho_factor(design.gram[np.ix_(self.at, self.at)])
        self.beta = self._solved(response)
        self.beta += self._solved(
            response - self.fitted
        )  # a second pass takes the rounding of the normal equations away
        self.residuals: Array = response - self.fitted

    def _solved(self, response: Array) -> Array:
        right = (self.design.contrasts.T @ (self.design.indicators.T @ response))[self.at]
        solution: Array = linalg.cho_solve(self.factor, right)
        return solution

    @property
    def fitted(self) -> Array:
        """The model's values."""
        values: Array = self.design.indicators @ (self.design.contrasts[:, self.at] @ self.beta)
        return values

    @property
    def df(self) -> int:
        """Degrees of freedom of the residuals."""
        return int(self.residuals.shape[0] - len(self.at))

    @property
    def sum_squares(self) -> float:
        """Residual sum of squares."""
        return float(self.residuals @ self.residuals)

    @cached_property
    def inverse(self) -> Array:
        """The inverse Gram matrix: the covariance of the coefficients for unit variance."""
        inverse: Array = linalg.cho_solve(self.factor, np.eye(len(self.at)))
        return inverse

    @cached_property
    def leverages(self) -> Array:
        """How much each trial draws its own fitted value."""
        columns = self.design.contrasts[:, self.at]
        hat = columns @ self.inverse @ columns.T
        parts = []
        for start in range(0, self.design.indicators.shape[0], ROWS):
            rows = self.design.indicators[start : start + ROWS]
            parts.append(np.asarray(rows.multiply(rows @ hat).sum(axis=1)).ravel())
        return np.concatenate(parts)

    def place(self, at: int) -> NDArray[np.int64]:
        """Where the coefficients of the term at this position of the design are in `beta`."""
        return np.searchsorted(self.at, self.design.columns([at]))

    def own_squares(self, at: int) -> float:
        """The sum of squares that is lost when the term alone is taken out of this model."""
        own = self.place(at)
        beta = self.beta[own]
        return float(beta @ linalg.solve(self.inverse[np.ix_(own, own)], beta, assume_a="pos"))

    def weighted_gram(self, weights: Array) -> Array:
        """The Gram matrix of the columns with each trial weighted."""
        columns, indicators = self.design.contrasts[:, self.at], self.design.indicators
        counts = (indicators.T @ (sparse.diags_array(weights) @ indicators)).toarray()
        gram: Array = columns.T @ counts @ columns
        return gram

    def squared_weights(self, gradients: Array, cell: Codes, cells: int) -> Array:
        """For each linear function of the coefficients, its squared weights of the trials summed over each cell."""
        columns = self.design.contrasts[:, self.at] @ self.inverse @ gradients.T
        sums: Array = np.zeros((cells, len(gradients)))
        for start in range(0, self.design.indicators.shape[0], ROWS):
            weights = self.design.indicators[start : start + ROWS] @ columns
            sums += _indicators(cell[start : start + ROWS], cells).T @ weights**2
        return sums.T


def tested_fit(fit: Fit, response: Array, at: int, marginal: bool) -> Fit:
    """The model in which a term is tested: of type II (`marginal`: without the terms that contain it) or type III."""
    term = fit.design.terms[at]
    holders = [at for at in fit.chosen if fit.design.terms[at].contains(term)]
    if not marginal or not holders:
        return fit
    return Fit(fit.design, [at for at in fit.chosen if at not in holders], response)
