"""Ranges of the measured rows held out to see how a candidate would extrapolate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

Array = np.ndarray
Split = tuple[Array, Array]
SMALLEST_SHARE, LARGEST_SHARE = 0.1, 0.5


def upper_ranges(frame: pd.DataFrame, columns: Sequence[str], fewest: int = 6) -> list[Split]:
    """For each column, its upper values as test rows and the lower ones as training rows.

    >>> train, test = upper_ranges(pd.DataFrame({"n": [1, 2, 4, 8] * 3}), ["n"])[0]
    >>> len(train), len(test)
    (9, 3)
    """
    splits = []
    for column in columns:
        values = frame[column].to_numpy(float)
        borders = np.unique(values)[:-1]
        shares = np.array([np.mean(values > border) for border in borders])
        fine = (shares >= SMALLEST_SHARE) & (shares <= LARGEST_SHARE)
        if len(borders) < 2 or not fine.any():
            continue
        # About a third of the rows: enough to judge by, enough to learn from.
        border = borders[fine][np.argmin(np.abs(shares[fine] - 0.3))]
        train, test = np.flatnonzero(values <= border), np.flatnonzero(values > border)
        if len(train) >= fewest:
            splits.append((train, test))
    return splits
