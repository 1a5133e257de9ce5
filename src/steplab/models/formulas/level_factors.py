"""Categorical factors as multipliers, for models whose formulas know numbers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

Array = np.ndarray
Factors = dict[str, dict[str, float]]


def level_factors(
    frame: pd.DataFrame, y: Array, numeric: Sequence[str], levels: Mapping[str, tuple[str, ...]]
) -> Factors:
    """What each level multiplies the target by against the first one: a log-linear fit beside the numbers."""
    coded, names = _dummies(frame, levels)
    if not names:
        return {}
    columns = [np.ones(len(frame))]
    for column in numeric:
        values = frame[column].to_numpy(float)
        values = values / (float(np.median(np.abs(values))) or float(np.max(np.abs(values))) or 1.0)
        columns.append(np.log(values) if np.min(values) > 0 else values)
    # In units of a typical target: its own unit must not even change a rounding.
    plain = y / (float(np.median(np.abs(y))) or 1.0)
    design = np.column_stack([*columns, coded])
    # A touch of ridge decides what the rows do not.
    gram = design.T @ design + 1e-6 * len(y) * np.eye(design.shape[1])
    effects = np.linalg.solve(gram, design.T @ np.log(np.maximum(plain, 1e-3)))[len(columns) :]
    factors: Factors = {column: {known[0]: 1.0} for column, known in levels.items() if known}
    for (column, name), effect in zip(names, effects, strict=True):
        factors[column][name] = float(np.exp(np.clip(effect, -20, 20)))
    return factors


def multiplier(frame: pd.DataFrame, factors: Factors) -> Array:
    """The product of the level factors of each row."""
    product = np.ones(len(frame))
    for column, values in factors.items():
        product = product * frame[column].map(values).to_numpy(float)
    return product


def _dummies(frame: pd.DataFrame, levels: Mapping[str, Sequence[str]]) -> tuple[Array, list[tuple[str, str]]]:
    """One 0/1 column for each level but the first of each categorical factor, and which level each is."""
    names = [(column, name) for column, known in levels.items() for name in known[1:]]
    blocks = [(frame[column].to_numpy() == name).astype(float) for column, name in names]
    return (np.column_stack(blocks) if blocks else np.empty((len(frame), 0))), names
