"""Communication of a trial: how long collectives were in flight, and how much of that no compute hid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steplab.core.order_statistics import median

Array = NDArray[np.float64]
# Raw columns of mode `overlap` beside t_iter. t_alone is the time of a step without its exchange; only records whose
# overlap_method is `difference` have it.
OVERLAP = ("t_comm", "t_exposed", "t_alone")
UNKNOWN = {"t_comm": np.nan, "t_exposed": np.nan, "t_hidden": np.nan}


def communication(in_flight: Array, exposed: Array) -> dict[str, float]:
    """Medians over the iterations of the ranks' mean: in flight, exposed, and hidden behind compute.

    Both arrays are ranks × iterations, in seconds. Where what is in flight and what is exposed come from different
    steps (`difference`), noise can put the part above the whole; all of it is exposed then.

    >>> communication(np.array([[3.0, 3.0]]), np.array([[1.0, 1.0]]))
    {'t_comm': 3.0, 't_exposed': 1.0, 't_hidden': 2.0}
    >>> communication(np.array([[1.0, 1.0]]), np.array([[2.0, 2.0]]))
    {'t_comm': 2.0, 't_exposed': 2.0, 't_hidden': 0.0}
    """
    part = float(median(exposed.mean(axis=0)))
    whole = max(part, float(median(in_flight.mean(axis=0))))
    return {"t_comm": whole, "t_exposed": part, "t_hidden": whole - part}
