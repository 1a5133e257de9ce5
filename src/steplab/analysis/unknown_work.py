"""The work of a step where nobody says its batch size: whether workers share it, or each brings its own.

Times alone tell only so much. Steps that get clearly shorter with more workers share their work (strong scaling): under
weak scaling each of N workers would have to do its own work faster than one alone. Otherwise each is taken to have its
own, as in steplab's own studies. Either way it is an assumption, and it is said.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHORTER = 0.9  # a step that takes less than this share of the one with fewest workers is clearly shorter
UNKNOWN = "The batch size is not known, so there are no samples/s, and configurations are ranked by time."
SHARED = (
    "Steps get shorter with more workers, so these are taken to share one batch (strong scaling); if each has a batch "
    "of its own, import again with --set batch_size=N."
)
APART = (
    "Steps do not get shorter with more workers, so each is taken to have a batch of its own (weak scaling); if they "
    "share one, import again with --set global_batch_size=N."
)


def is_shared(times: NDArray[np.float64], workers: NDArray[np.int64], series: NDArray[np.int64]) -> bool:
    """Whether steps get shorter with more workers; one time, number of workers and series for each configuration.

    >>> is_shared(np.array([8.0, 4.5, 3.0]), np.array([1, 2, 4]), np.array([0, 0, 0]))
    True
    >>> is_shared(np.array([8.0, 8.1, 9.0]), np.array([1, 2, 4]), np.array([0, 0, 0]))
    False
    """
    shares: list[float] = []
    for number in np.unique(series):
        own = np.flatnonzero(series == number)
        base = own[np.argmin(workers[own])]
        shares += (times[own[workers[own] > workers[base]]] / times[base]).tolist()
    return bool(shares) and float(np.median(shares)) < SHORTER


def assumption(shared: bool, several: bool) -> str:
    """What is assumed of the work of a step; of several numbers of workers, also who does it."""
    return " ".join([UNKNOWN, *([SHARED if shared else APART] if several else [])])
