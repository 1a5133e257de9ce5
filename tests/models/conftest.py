"""Tables with a known law, for the tests of performance models."""

import numpy as np
import pandas as pd
import pytest

ROLES = {
    "intrinsic": ("filters", "kernel"),
    "categorical": ("padding",),
    "extrinsic": ("batch_size", "workers"),
}


def law(X):
    level = X["padding"].map({"same": 3.0, "valid": 1.0}).to_numpy(float)
    inner = 0.5 * X["filters"] ** 0.8 + 0.2 * X["kernel"] ** 2 + level
    return (inner * X["batch_size"] ** 0.6 * X["workers"] ** -0.9 + 2.0).to_numpy(float)


@pytest.fixture
def roles():
    return ROLES


@pytest.fixture
def make_table():
    def make(rows=300, noise=0.02, seed=0):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({
            "filters": rng.choice([4.0, 8.0, 16.0, 32.0, 64.0], rows),
            "kernel": rng.choice([2.0, 3.0, 4.0, 5.0], rows),
            "padding": rng.choice(["same", "valid"], rows),
            "batch_size": rng.choice([8.0, 16.0, 32.0, 64.0, 128.0], rows),
            "workers": rng.choice([1.0, 2.0, 3.0, 4.0], rows),
        })  # fmt: skip
        y = law(X) * (1 + noise * rng.standard_normal(rows))
        return X, pd.Series(y, name="t_iter")

    return make
