"""Effects where configurations are not equally noisy: each counts with its own moderated variance.

The estimates stay those of least squares, which weigh all cells equally; what changes is how far they may be off. A
linear function of the coefficients is a weighted sum of trials, so its variance is the sum of squared weights times
the variances of their cells (White, Econometrica 48, 1980, with variances of cells instead of squared residuals), with
Satterthwaite's degrees of freedom. A sum of squares of the analysis of variance is compared with what it would be by
noise alone, by Box's approximation (Annals of Mathematical Statistics 25, 1954; Brunner, Dette and Munk, Journal of
the American Statistical Association 92, 1997). With equal variances all of this is the textbook's t and F.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from steplab.analysis.effects.anova import Fit
from steplab.analysis.effects.error_term import Within
from steplab.analysis.effects.layout import Layout
from steplab.analysis.statistics.variances import Moderated, joint_freedom, moderated, unequal

Array = NDArray[np.float64]


def cell_noise(plan: Layout, pure: Within) -> Moderated | None:
    """The moderated variance of each cell; None where they differ no more than chance allows, or cannot be told."""
    room = np.bincount(plan.cell, 1.0 - pure.leverages, minlength=plan.cells)
    freedom = np.where(room > 1e-6, room, 0.0).astype(np.float64)
    squares = np.bincount(plan.cell, pure.residuals**2, minlength=plan.cells)
    variances = np.divide(squares, freedom, out=np.zeros(plan.cells), where=freedom > 0)
    return moderated(variances, freedom) if unequal(variances, freedom) else None


@dataclass(frozen=True)
class UnequalNoise:
    """The noise of a fit's coefficients when each cell has its own variance."""

    fit: Fit
    plan: Layout
    cells: Moderated

    def unit(self, gradients: Array) -> Array:
        """Gradients over independent unit normals: their lengths are standard errors."""
        return np.asarray(gradients @ self._root)

    def freedom(self, gradients: Array) -> Array:
        """Degrees of freedom of each linear function of the coefficients."""
        return joint_freedom(self._shares(gradients), self.cells.freedom, self.cells.pool)

    def tested(self, at: int, squares: float) -> tuple[float, float]:
        """F and p of a term's sum of squares."""
        own = self.fit.place(at)
        rows = np.zeros((len(own), len(self.fit.at)))
        # Coefficients of unit variance for unit noise: the sum of their squares is the term's.
        whiten = linalg.cholesky(self.fit.inverse[np.ix_(own, own)], lower=True)
        rows[:, own] = linalg.solve_triangular(whiten, np.eye(len(own)), lower=True)
        spread = self.unit(rows) @ self.unit(rows).T
        freedom = float(np.trace(spread) ** 2 / (spread**2).sum())
        return self._compared(squares, freedom, self._shares(rows).sum(axis=0))

    def rest_tested(self, squares: float, df: int, leverages: Array) -> tuple[float, float]:
        """F and p of what is left beyond the model, by the leverages that it has beyond those of the model."""
        room = np.bincount(self.plan.cell, np.maximum(leverages, 0.0), minlength=self.plan.cells)
        expected = room * self.cells.variance
        # The exact one would need the whole projection; this is never more.
        least = float(expected.sum() ** 2 / (expected * self.cells.variance).sum())
        return self._compared(squares, float(np.clip(least, 1.0, df)), expected)

    def _compared(self, squares: float, df: float, expected: Array) -> tuple[float, float]:
        """`expected` is what each cell's noise alone would add to the sum of squares."""
        from scipy.stats import f

        ratio = squares / float(expected.sum())
        return ratio, float(f.sf(ratio, df, float(joint_freedom(expected, self.cells.freedom, self.cells.pool))))

    def _shares(self, gradients: Array) -> Array:
        """The variance that each cell brings to each linear function."""
        return self.fit.squared_weights(gradients, self.plan.cell, self.plan.cells) * self.cells.variance

    @cached_property
    def _root(self) -> Array:
        """R with R·Rᵀ the covariance of the coefficients."""
        gram = self.fit.weighted_gram(self.cells.variance[self.plan.cell])
        return np.asarray(self.fit.inverse @ linalg.cholesky(gram, lower=True))
