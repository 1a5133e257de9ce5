"""The source's regression of time on workers and imbalance, with the degrees of freedom that it really has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.configurations import Configurations

Array = NDArray[np.float64]
COEFFICIENTS = 3
FEWEST_ROWS = 5  # as the model `load-imbalance` asks for


@dataclass(frozen=True)
class Coefficient:
    """β of a term; no interval where degrees of freedom are missing."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ImbalanceRegression:
    """t = β0 + β1·N + β2·LIF + ε over the trials of a series (MMU thesis, chapter 3)."""

    coefficients: tuple[Coefficient, ...]
    r2: float | None
    points: int  # different numbers of workers
    freedom: int  # points less coefficients: what R² could be judged by
    note: str


def regress(cells: Configurations, own: Sequence[int]) -> ImbalanceRegression | None:
    """The regression of one series; None where imbalance was not measured at three numbers of workers or more."""
    if len(own) < COEFFICIENTS:
        return None
    rows = np.concatenate([cells.members[at] for at in own])
    lif, time = cells.values("lif")[rows], cells.values("t_iter")[rows]
    workers = cells.workers[cells.of[rows]]
    have = np.isfinite(lif)
    points = len(np.unique(workers[have]))
    if points < COEFFICIENTS:
        return None
    freedom = points - COEFFICIENTS
    if have.sum() < FEWEST_ROWS:
        return ImbalanceRegression((), None, points, freedom, _note(points, freedom, varies=True))
    return _fitted(workers[have].astype(float), lif[have], time[have], points)


def _fitted(workers: Array, lif: Array, time: Array, points: int) -> ImbalanceRegression:
    from steplab.models.solvers.least_squares import independent, least_squares

    matrix = np.column_stack([np.ones(len(time)), workers, lif])
    kept = independent(matrix)
    # Replicates are no new numbers of workers: they are one cluster each, and cannot make degrees of freedom.
    values, half, _ = least_squares(matrix[:, kept], time, workers)
    told = dict(zip(kept, zip(values.tolist(), half.tolist(), strict=True), strict=True))
    coefficients = tuple(_coefficient(f"β{at}", *told.get(at, (0.0, np.nan))) for at in range(COEFFICIENTS))
    residual = time - matrix[:, kept] @ values
    total = float(((time - time.mean()) ** 2).sum())
    freedom, varies = points - COEFFICIENTS, bool(np.ptp(lif) > 1e-9)
    r2 = 1 - float((residual**2).sum()) / total if total > 0 else None
    return ImbalanceRegression(coefficients, r2, points, freedom, _note(points, freedom, varies))


def _coefficient(name: str, value: float, half: float) -> Coefficient:
    return Coefficient(name, value, *((value - half, value + half) if np.isfinite(half) else (None, None)))


def _note(points: int, freedom: int, varies: bool) -> str:
    """What R² is worth here."""
    if not varies:
        return "LIF does not vary, so its coefficient cannot be told from the constant."
    if freedom <= 0:
        return (
            f"{COEFFICIENTS} coefficients for {points} numbers of workers leave no degree of freedom: "
            "R² means nothing (and LIF at one worker is 1 by definition)."
        )
    return f"{freedom} degree{'s' if freedom > 1 else ''} of freedom from {points} numbers of workers."
