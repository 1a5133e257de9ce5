"""A model of a known law: a step costs 10 ms and 1 ms a sample, and more with each further worker."""

from __future__ import annotations

import numpy as np
import pandas as pd

from steplab.models.base import PerformanceModel
from steplab.models.linear import Linear


def law(batch: np.ndarray, workers: np.ndarray) -> np.ndarray:
    """Seconds of a step."""
    return np.asarray(0.010 + 0.001 * batch + 0.005 * (workers - 1))


def measured(noise: float, seed: int = 0, replicates: int = 3) -> pd.DataFrame:
    """A full factorial with noise of that size."""
    rng = np.random.default_rng(seed)
    grid = [(b, w) for b in (8.0, 16.0, 32.0, 64.0) for w in (1.0, 2.0, 4.0, 8.0)] * replicates
    batch, workers = np.array(grid).T
    times = law(batch, workers) * np.exp(noise * rng.standard_normal(len(grid)))
    return pd.DataFrame({"batch_size": batch, "workers": workers, "t_iter": times})


def fitted(noise: float = 0.05, seed: int = 0) -> PerformanceModel:
    """A model of the right form, fitted to noisy times."""
    rows = measured(noise, seed)
    return Linear((), (), ("batch_size", "workers")).fit(rows[["batch_size", "workers"]], rows["t_iter"])
