"""Least squares with standard errors that respect replicates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import stdtrit

Array = NDArray[np.float64]
ALONE = 1e-10  # a share of the leverage: what no other cluster tells


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
    rows, width = matrix.shape
    basis, triangle = np.linalg.qr(matrix / norms)
    values = solve_triangular(triangle, basis.T @ y)
    clusters = rows if groups is None else len(np.unique(groups))
    if clusters <= width:
        return values / norms, np.full(width, np.nan), False
    residual = y - basis @ (basis.T @ y)
    moved = np.eye(width) * np.sqrt(residual @ residual / (rows - width))
    if groups is not None:
        moved = _moved_without_each(basis, residual, groups)
    errors = np.sqrt((solve_triangular(triangle, moved) ** 2).sum(axis=1))
    return values / norms, float(stdtrit(clusters - width, 0.975)) * errors / norms, True


def _moved_without_each(basis: Array, residual: Array, groups: Array) -> Array:
    """How far the coefficients in an orthonormal basis move when each cluster is left out: the jackknife's errors.

    The usual sandwich is too small where clusters are few: with five of them its 95 % intervals hold in 85 % of cases,
    the jackknife's in 96 % (CV3 of J. MacKinnon, M. Nielsen, M. Webb, "Cluster-robust inference: a guide to empirical
    practice", J. Econometrics 232, 2023).
    """
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    moved = [_moved(basis[part], residual[part]) for part in parts]
    return np.asarray(np.column_stack(moved) * np.sqrt((len(parts) - 1) / len(parts)))


def _moved(basis: Array, residual: Array) -> Array:
    """The same for one cluster; of what it alone tells, nothing."""
    scores = basis.T @ residual
    if len(residual) > basis.shape[1]:
        return np.asarray(np.linalg.pinv(np.eye(basis.shape[1]) - basis.T @ basis, rcond=ALONE) @ scores)
    return np.asarray(basis.T @ (np.linalg.pinv(np.eye(len(residual)) - basis @ basis.T, rcond=ALONE) @ residual))
