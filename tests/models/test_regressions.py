import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import ModelError, NotEnoughData
from steplab.models.linear import Linear
from steplab.models.load_imbalance import LoadImbalance
from steplab.models.quadratic import Quadratic


def plane(rows=40, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"a": rng.uniform(1, 5, rows), "workers": rng.integers(1, 5, rows), "k": rng.choice(["u", "v"], rows)}
    )
    y = 2 + 3 * X["a"] - X["workers"] + 4 * (X["k"] == "v") + noise * rng.standard_normal(rows)
    return X, y


def test_linear_finds_slopes_and_level_differences():
    X, y = plane(noise=0.01)
    found = {p.name: p.value for p in Linear().fit(X, y).parameters()}
    assert found == pytest.approx({"constant": 2, "a": 3, "workers": -1, "k=v": 4}, abs=0.05)


def test_linear_intervals_hold_the_truth():
    held = []
    for seed in range(60):
        X, y = plane(seed=seed)
        slope = next(p for p in Linear().fit(X, y).parameters() if p.name == "a")
        held.append(slope.low <= 3 <= slope.high)
    assert 0.88 <= np.mean(held) <= 1


def test_epochs_of_a_run_are_not_independent_rows():
    rng = np.random.default_rng(1)
    X, y = plane(rows=20, noise=0)
    epochs = 10
    run = np.repeat(np.arange(20), epochs)
    many = y.to_numpy()[run] + np.repeat(rng.normal(0, 1, 20), epochs) + 0.01 * rng.standard_normal(20 * epochs)
    table = X.iloc[run].reset_index(drop=True)
    naive, honest = (next(p for p in Linear().fit(table, many, g).parameters() if p.name == "a") for g in (None, run))
    assert honest.high - honest.low > 2 * (naive.high - naive.low)


def test_a_redundant_column_is_marked_and_left_out():
    X, y = plane()
    found = {p.name: p for p in Linear().fit(X.assign(twice=2 * X["a"]), y).parameters()}
    assert found["a"].identified
    assert not found["twice"].identified


def surface(rows=80):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.uniform(1, 3, rows), "workers": rng.uniform(1, 4, rows)})


def test_quadratic_finds_interactions_of_logarithms():
    X = surface()
    a, workers = np.log(X["a"]), np.log(X["workers"])
    found = {p.name: p.value for p in Quadratic().fit(X, np.exp(1 + 2 * a * workers + 0.5 * a**2)).parameters()}
    assert found["ln a·ln workers"] == pytest.approx(2, abs=1e-6)
    assert found["ln a·ln a"] == pytest.approx(0.5, abs=1e-6)


def test_quadratic_takes_no_logarithms_of_a_target_with_negatives():
    X = surface()
    y = -9 + 2 * X["a"] * X["workers"] + 0.5 * X["a"] ** 2
    assert y.min() < 0
    found = {p.name: p.value for p in Quadratic().fit(X, y).parameters()}
    assert found["a·workers"] == pytest.approx(2, abs=1e-6)
    assert found["a·a"] == pytest.approx(0.5, abs=1e-6)


def test_quadratic_goes_on_as_a_power_law_beyond_the_range():
    X = surface()
    y = np.exp(np.log(X["workers"]) ** 2)
    model = Quadratic().fit(X, y)
    far = pd.DataFrame({"a": 2.0, "workers": X["workers"].max() * np.array([1.0, 10.0, 100.0])})
    predicted = model.predict(far)
    assert predicted[2] / predicted[1] == pytest.approx(predicted[1] / predicted[0])
    np.testing.assert_allclose(model.formula().evaluate(far), predicted)


def test_quadratic_asks_for_more_rows_than_terms():
    X, y = plane(rows=7)
    with pytest.raises(NotEnoughData):
        Quadratic().fit(X, y)


def test_load_imbalance_finds_both_slopes():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"workers": rng.integers(1, 9, 30).astype(float), "lif": rng.uniform(1, 2, 30)})
    found = {
        p.name: p.value
        for p in LoadImbalance(extrinsic=("workers", "lif")).fit(X, 5 - X["workers"] / 2 + 3 * X["lif"]).parameters()
    }
    assert found == pytest.approx({"constant": 5, "workers": -0.5, "lif": 3})


def test_load_imbalance_refuses_the_three_points_of_its_source():
    X = pd.DataFrame({"workers": [1.0, 2.0, 3.0], "lif": [1.0, 1.1, 1.2]})
    with pytest.raises(NotEnoughData, match="at least 5 rows"):
        LoadImbalance(extrinsic=("workers", "lif")).fit(X, [3.0, 2.0, 1.0])


def test_load_imbalance_names_the_column_it_misses():
    X, y = plane()
    with pytest.raises(ModelError, match="needs column 'lif'"):
        LoadImbalance().fit(X, y)
