"""Folds: each row is a test row once."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import GroupKFold, KFold

Array = np.ndarray


def folds(rows: int, groups: Array | None, wanted: int) -> list[tuple[Array, Array]]:
    """Train and test rows of each fold; rows of one group stay together; the same for the same input."""
    if groups is not None and len(np.unique(groups)) > 1:
        return list(GroupKFold(min(wanted, len(np.unique(groups)))).split(np.empty(rows), groups=groups))
    return list(KFold(min(wanted, rows), shuffle=True, random_state=0).split(np.empty(rows)))
