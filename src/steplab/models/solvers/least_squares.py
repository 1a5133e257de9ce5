"""Least squares with standard errors that respect replicates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from statsmodels.regression.linear_model import OLS

Array = NDArray[np.float64]


def independent(matrix: Array) -> list[int]:
    """The columns that are not combinations of earlier ones, the first (the constant) always among them."""
    norms = np.sqrt((matrix**2).sum(axis=0))
    scaled = matrix / np.where(norms > 0, norms, 1.0)
    kept: list[int] = []
    basis = np.empty((len(matrix), 0))
    for i in range(matrix.shape[1]):
        rest = scaled[:, i] - basis @ (basis.T @ scaled[:, i])
        rest = rest - basis @ (basis.T @ rest)
        size = float(np.sqrt(rest @ rest))
        if size > 1e-7:
            kept.append(i)
            basis = np.column_stack([basis, rest / size])
    return kept


def least_squares(matrix: Array, y: Array, groups: Array | None) -> tuple[Array, Array, bool]:
    """Coefficients of independent columns, half widths of their 95 % intervals, and whether those are told by the data.

    With groups the errors are cluster-robust: the epochs of a run, or replicates, are not independent rows.
    """
    # Unit norms: products of large columns would otherwise spoil the conditioning and the test for rank.
    norms = np.sqrt((matrix**2).sum(axis=0))
    result = OLS(y, matrix / norms).fit()
    clusters = len(y) if groups is None else len(np.unique(groups))
    if clusters <= matrix.shape[1]:
        return np.asarray(result.params) / norms, np.full(matrix.shape[1], np.nan), False
    if groups is not None:
        result = result.get_robustcov_results("cluster", groups=groups, use_correction=True, df_correction=True)
    # A robust variance may come out below 0 where clusters are few: such a coefficient is not determined.
    with np.errstate(invalid="ignore"):
        interval = np.asarray(result.conf_int(0.05))
    return np.asarray(result.params) / norms, (interval[:, 1] - interval[:, 0]) / 2 / norms, True
