"""The work of a step where nobody says its batch size: whether workers share it, or each brings its own.

Times alone tell only so much. Steps that get clearly shorter with more workers share their work (strong scaling): under
weak scaling each of N workers would have to do its own work faster than one alone, and efficiencies would exceed 100 %.
Steps that do not get shorter may be either. So one series that falls decides for all of a table, which one program
wrote; otherwise each worker is taken to have its own work, as in steplab's own studies. It is an assumption, and it is
said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHORTER = 0.9  # a step that takes less than this share of the one with fewest workers is clearly shorter
UNKNOWN = "The batch size is not known, so there are no samples/s, and configurations are ranked by time."
SHARED = (
    "Steps get shorter with more workers{where}, so these are taken to share one batch (strong scaling); if each has a "
    "batch of its own, import again with --set batch_size=N."
)
APART = (
    "Steps do not get shorter with more workers, so each is taken to have a batch of its own (weak scaling); if they "
    "share one, import again with --set global_batch_size=N."
)


@dataclass(frozen=True)
class Falling:
    """How many series get clearly shorter steps with more workers, of how many that have several numbers of them."""

    falling: int
    series: int

    @property
    def shared(self) -> bool:
        """Whether workers are taken to share the work of a step."""
        return self.falling > 0

    @property
    def assumption(self) -> str:
        """What is assumed of the work of a step; of several numbers of workers, also who does it."""
        where = f" in {self.falling} of {self.series} series" if self.falling < self.series else ""
        told = SHARED.format(where=where) if self.shared else APART
        return f"{UNKNOWN} {told}" if self.series else UNKNOWN


def falling_series(times: NDArray[np.float64], workers: NDArray[np.int64], series: NDArray[np.int64]) -> Falling:
    """Count them; there is one time, number of workers and series for each configuration.

    >>> falling_series(np.array([8.0, 4.5, 3.0]), np.array([1, 2, 4]), np.array([0, 0, 0])).shared
    True
    >>> falling_series(np.array([8.0, 8.1, 9.0]), np.array([1, 2, 4]), np.array([0, 0, 0])).shared
    False
    """
    medians: list[float] = []
    for number in np.unique(series):
        own = np.flatnonzero(series == number)
        base = own[np.argmin(workers[own])]
        more = own[workers[own] > workers[base]]
        if len(more):
            medians.append(float(np.median(times[more] / times[base])))
    return Falling(sum(median < SHORTER for median in medians), len(medians))
