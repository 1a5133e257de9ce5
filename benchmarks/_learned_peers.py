"""What a person would fit without steplab: forest, boosting, Gaussian process, with the intervals that these give."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from _pollux_splits import COLUMNS, TARGET

Bounds = tuple[np.ndarray, np.ndarray, np.ndarray]  # value, low, high


def _logs(train: pd.DataFrame, test: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.log(train[COLUMNS].to_numpy(float)),
        np.log(train[TARGET].to_numpy()),
        np.log(test[COLUMNS].to_numpy(float)),
    )


def forest(train: pd.DataFrame, test: pd.DataFrame) -> Bounds:
    """A random forest; the interval is that of its trees."""
    X, y, Z = _logs(train, test)
    made = RandomForestRegressor(100, min_samples_leaf=2, random_state=0).fit(X, y)
    trees = np.array([tree.predict(Z) for tree in made.estimators_])
    return np.exp(made.predict(Z)), *np.exp(np.quantile(trees, (0.05, 0.95), axis=0))


def boosting(train: pd.DataFrame, test: pd.DataFrame) -> Bounds:
    """Gradient boosting, with quantile regression for the interval."""
    X, y, Z = _logs(train, test)
    made = [GradientBoostingRegressor(loss="quantile", alpha=a, n_estimators=100, random_state=0).fit(X, y)
            for a in (0.5, 0.05, 0.95)]  # fmt: skip
    value, low, high = (np.exp(one.predict(Z)) for one in made)
    return value, low, high


def gaussian_process(train: pd.DataFrame, test: pd.DataFrame) -> Bounds:
    """A Gaussian process on logarithms, with its posterior's interval."""
    X, y, Z = _logs(train.iloc[:: max(1, len(train) // 250)], test)
    kernel = RBF(np.ones(X.shape[1]), (0.05, 50)) + WhiteKernel(0.01, (1e-6, 1))
    made = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    middle, spread = made.predict(Z, return_std=True)
    return np.exp(middle), np.exp(middle - 1.645 * spread), np.exp(middle + 1.645 * spread)


PEERS = {
    "scikit-learn forest": forest,
    "scikit-learn boosting": boosting,
    "scikit-learn Gaussian process": gaussian_process,
}
