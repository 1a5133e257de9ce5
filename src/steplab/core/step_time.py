"""The step time of several ranks: one number for each iteration of a trial (decision record 6).

Ranks that exchange gradients at every step share one period. What a rank's own stamps say of it is that period plus the
jitter of two clock reads, which the mean over the ranks averages out and the maximum would add, more with every rank.
Ranks that wait for nobody have periods of their own: there the rates add.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steplab.core.order_statistics import median

Array = NDArray[np.float64]


def rank_weights(times: Array, shared: bool) -> Array:
    """The weight of each rank (the last axis but one) in a mean over the steps of all ranks; they sum to 1.

    Independent ranks make unequal numbers of steps, in proportion to their rates 1/median. The mean of their medians
    with these weights is N/Σ rates, the time of a step at which N ranks make as many steps as these do.

    >>> rank_weights(np.array([[1.0, 1.0], [4.0, 4.0]]), shared=False).tolist()
    [0.8, 0.2]
    """
    own = median(times)
    apart = (own > 0).all(axis=-1, keepdims=True) & (not shared)
    rates = np.where(apart, 1.0 / np.where(apart, own, 1.0), 1.0)
    return np.asarray(rates / rates.sum(axis=-1, keepdims=True))


def step_times(times: Array, shared: bool) -> Array:
    """The step time of each iteration from the ranks' own, ranks × iterations; its median is the trial's t_iter.

    >>> step_times(np.array([[1.0, 3.0], [3.0, 1.0]]), shared=True).tolist()
    [2.0, 2.0]
    >>> step_times(np.array([[1.0, 1.0], [4.0, 4.0]]), shared=False).tolist()  # rates of 1 and 1/4: 2/1.25
    [1.6, 1.6]
    """
    weights = rank_weights(times, shared)
    mean: Array = weights @ times
    middle = float(median(mean))
    if shared or not middle > 0:
        return mean
    # The median of a mean of skewed times is not the mean of their medians; the rates must add exactly.
    return mean * (float(weights @ median(times)) / middle)
