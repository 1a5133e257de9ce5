"""What effects are judged against: the noise of replicates, of configurations, or of pooled interactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.configurations import NO_NOISE
from steplab.analysis.effects.anova import SINGULAR, Fit
from steplab.analysis.effects.findings import ErrorKind, ErrorTerm
from steplab.analysis.effects.layout import Layout

Array = NDArray[np.float64]
FEWEST_DF = 4  # below that, replicates alone say too little


@dataclass(frozen=True)
class Within:
    """What is left of a response when every cell and every block has its own mean (pure error)."""

    residuals: Array
    leverages: Array
    df: int

    @property
    def sum_squares(self) -> float:
        """Residual sum of squares."""
        return float(self.residuals @ self.residuals)


def within_cells(plan: Layout) -> Callable[[Array], Within]:
    """The function from a response to its pure error: cells and blocks are swept out of it."""
    sizes = np.bincount(plan.cell, minlength=plan.cells).astype(float)

    def swept(values: Array) -> Array:
        centred: Array = values - (np.bincount(plan.cell, values, minlength=plan.cells) / sizes)[plan.cell]
        return centred

    blocks = [swept((plan.block == at).astype(float)) for at in range(1, plan.blocks)]
    basis = _orthonormal(np.column_stack(blocks)) if blocks else np.empty((len(plan.cell), 0))
    leverages = 1.0 / sizes[plan.cell] + (basis**2).sum(axis=1)
    df = len(plan.cell) - plan.cells - basis.shape[1]

    def within(response: Array) -> Within:
        left = swept(response)
        left = left - basis @ (basis.T @ left)
        return Within(swept(left), leverages, df)

    return within


def _orthonormal(columns: Array) -> Array:
    """An orthonormal basis of what the columns span."""
    sizes, vectors = np.linalg.eigh(columns.T @ columns)
    keep = sizes > SINGULAR * max(float(sizes.max()), 1.0)
    basis: Array = columns @ (vectors[:, keep] / np.sqrt(sizes[keep]))
    return basis


def error_kind(plan: Layout, pure_df: int, model_df: int) -> ErrorKind:
    """Which error fits: see `error_term`."""
    if model_df < 1 or plan.without_noise:
        return "none"
    if plan.grid and pure_df >= min(FEWEST_DF, model_df):
        return "replicates"
    return "pooled" if pure_df < FEWEST_DF else "configurations"


def error_term(kind: ErrorKind, plan: Layout, fit: Fit, pure: Within, unequal: bool) -> ErrorTerm:
    """The error for the intervals.

    With all combinations tried, the replicates' noise. With only some combinations tried at random, what was left out
    of the model shifts each configuration as a whole, so configurations, not replicates, are the sample. With one
    replicate, the interactions that are not in the model stand for noise.
    """
    if kind == "replicates":
        why = "effects are judged against the noise of replicates"
        if unequal:
            why += ", which is not the same everywhere: each configuration counts with its own"
        return ErrorTerm(kind, pure.df, _spread(pure.sum_squares, pure.df), why)
    if kind == "configurations":
        df = fit.df - pure.df
        between = (fit.sum_squares - pure.sum_squares) / df if df > 0 else 0.0
        if between > pure.sum_squares / pure.df:
            why = "not all combinations were tried: effects are judged against what the model leaves of configurations"
            return ErrorTerm(kind, df, float(np.sqrt(between)), why)
        return ErrorTerm(kind, fit.df, _spread(fit.sum_squares, fit.df), "effects are judged against all residuals")
    if kind == "pooled":
        why = (
            "with so few replicates, interactions that are not in the model stand for it, "
            "so effects may be missed; add replicates"
        )
        return ErrorTerm(kind, fit.df, _spread(fit.sum_squares, fit.df), why)
    if plan.without_noise:
        return ErrorTerm("none", 0, None, NO_NOISE[0].lower() + NO_NOISE[1:].rstrip("."))
    return ErrorTerm("none", 0, None, "nothing is left to estimate the noise from: add replicates")


def _spread(sum_squares: float, df: int) -> float:
    return float(np.sqrt(sum_squares / df))
