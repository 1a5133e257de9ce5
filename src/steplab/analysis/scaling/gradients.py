"""How many bytes of gradients a configuration exchanges, and what a byte and a message cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from steplab.core.resolution import graph_of, resolve
from steplab.core.trial import Level
from steplab_worker.graph import GraphError

BYTES = 4  # of a float32 gradient
STRAIGHT = 0.25  # the relative error up to which a line is believed


def gradient_bytes(factors: Mapping[str, Level]) -> float | None:
    """The bytes of all gradients of a configuration's network; None for a network that only its framework knows.

    >>> gradient_bytes({"framework": "torch", "network": "lenet5"})
    246824.0
    """
    return _bytes(tuple(sorted((name, level) for name, level in factors.items() if name != "workers")))


@lru_cache(maxsize=4096)
def _bytes(factors: tuple[tuple[str, Level], ...]) -> float | None:
    try:
        graph = graph_of(resolve(dict(factors)))
    except (GraphError, KeyError, ValueError, ImportError, OSError):
        return None  # an imported table may name networks and frameworks that nobody here knows
    return None if graph is None else float(BYTES * graph.parameters)


def ring_bytes(gradients: float, workers: int) -> float:
    """What each rank sends in a ring all-reduce.

    >>> ring_bytes(100.0, 2), ring_bytes(100.0, 4)
    (100.0, 150.0)
    """
    return 2 * (workers - 1) / workers * gradients


def sharded_bytes(gradients: float, workers: int) -> float:
    """What each rank sends where parameters are gathered for both passes and gradients scattered.

    S. Rajbhandari et al., "ZeRO", SC 2020, stage 3: one and a half times as much as an all-reduce, at most. What
    belongs to no block is gathered once (`steplab.costs.exchange` counts it).

    >>> sharded_bytes(100.0, 2)
    150.0
    """
    return 1.5 * ring_bytes(gradients, workers)


def latency_of(bytes_sent: Sequence[float], seconds: Sequence[float]) -> float | None:
    """The seconds of an exchange without bytes: the intercept of a line, or None where no line can be seen.

    >>> round(latency_of([1.0, 10.0], [1.1, 2.0]), 6)
    1.0
    """
    from scipy.optimize import nnls

    x, y = np.asarray(bytes_sent, dtype=float), np.asarray(seconds, dtype=float)
    if len(x) < 2 or x.max() < 1.5 * x.min():
        return None
    # Relative errors count, as exchanges span decades.
    matrix = np.column_stack([np.ones(len(x)), x / x.max()]) / y[:, None]
    line, left = nnls(matrix, np.ones(len(x)))
    return float(line[0]) if left / np.sqrt(len(x)) <= STRAIGHT else None
