"""The columns of a regression: powers and products of numeric factors, levels against a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd


def dummies(frame: pd.DataFrame, levels: Mapping[str, Sequence[str]]) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """One 0/1 column for each level but the first of each categorical factor, and which level each is."""
    names = [(column, name) for column, known in levels.items() for name in known[1:]]
    blocks = [(frame[column].to_numpy() == name).astype(float) for column, name in names]
    return (np.column_stack(blocks) if blocks else np.empty((len(frame), 0))), names
