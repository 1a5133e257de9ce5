"""Least squares with standard errors that respect replicates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import stdtrit

Array = NDArray[np.float64]
ALONE = 1e-13  # of 1 less the leverage: no other cluster tells it
TOUCHED = 1e-6  # of a coefficient's largest share: it depends on what one cluster alone tells


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

    With groups the errors are cluster-robust: the epochs of a run, or replicates, are not independent rows. What a
    single cluster tells, such as a level that it alone has, has no error then: its half width is NaN.
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
    moved, alone = np.eye(width) * np.sqrt(residual @ residual / (rows - width)), np.empty((width, 0))
    if groups is not None:
        moved, alone = _moved_without_each(basis, residual, groups)
    errors = np.sqrt((solve_triangular(triangle, moved) ** 2).sum(axis=1))
    shares = np.abs(solve_triangular(triangle, np.column_stack([alone, np.eye(width)])))
    errors[shares[:, : alone.shape[1]].max(axis=1, initial=0.0) > TOUCHED * shares.max(axis=1)] = np.nan
    return values / norms, float(stdtrit(clusters - width, 0.975)) * errors / norms, True


def _moved_without_each(basis: Array, residual: Array, groups: Array) -> tuple[Array, Array]:
    """How far coefficients in an orthonormal basis move when each cluster is left out, and what single clusters tell.

    The first are the jackknife's errors (CV3 of J. MacKinnon, M. Nielsen, M. Webb, "Cluster-robust inference: a guide
    to empirical practice", J. Econometrics 232, 2023); the usual sandwich is too small where clusters are few.
    """
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    moved, alone = zip(*(_moved(basis[part], residual[part]) for part in parts), strict=True)
    return np.column_stack(moved) * np.sqrt((len(parts) - 1) / len(parts)), np.column_stack(alone)


def _moved(basis: Array, residual: Array) -> tuple[Array, Array]:
    """The same for one cluster: how far they move, and the directions in which nothing is left without it."""
    left, directions = np.linalg.eigh(np.eye(basis.shape[1]) - basis.T @ basis)
    told = left > ALONE
    others = directions[:, told]
    return (others / left[told]) @ (others.T @ (basis.T @ residual)), directions[:, ~told]
