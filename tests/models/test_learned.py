import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

from steplab.core.errors import ModelError
from steplab.models import load_model_class, model_from_document
from steplab.models.learned.trees import Trees, from_estimators

ROLES = {"intrinsic": ("size",), "extrinsic": ("workers",)}


def table(rows=60):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.uniform(1, 10, rows), "workers": rng.integers(1, 9, rows).astype(float)})
    return X, 0.1 + X["size"] * 0.02 + 0.05 * np.log(X["workers"])


def test_trees_as_arrays_predict_what_scikit_learn_predicts():
    rng = np.random.default_rng(0)
    X, z = rng.standard_normal((200, 3)), rng.standard_normal(200)
    forest = RandomForestRegressor(10, random_state=0).fit(X, z)
    trees = from_estimators(forest.estimators_)
    np.testing.assert_allclose(trees.each(X).mean(1), forest.predict(X))
    saved = Trees.from_document(trees.to_document(), 3)
    np.testing.assert_array_equal(saved.each(X), trees.each(X))


def test_trees_that_lead_nowhere_are_refused():
    X, y = table()
    document = load_model_class("random-forest")(**ROLES).fit(X, y).to_document()
    for name in ("left", "feature", "roots"):
        damaged = copy.deepcopy(document)
        damaged["state"]["learned"][name][0] = 10**6
        with pytest.raises(ModelError, match="damaged"):
            model_from_document(damaged)


@pytest.mark.parametrize("name", ["random-forest", "gradient-boosting", "svr"])
def test_a_target_with_negatives_is_learned_as_it_is(name):
    X, y = table()
    model = load_model_class(name)(**ROLES).fit(X, y - y.mean())
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9


def test_forests_are_flat_beyond_the_range_and_support_vectors_go_on():
    X, y = table()
    edge, far = (pd.DataFrame({"size": [size], "workers": [4.0]}) for size in (float(X["size"].max()), 60.0))
    forest, machine = (load_model_class(name)(**ROLES).fit(X, y) for name in ("random-forest", "svr"))
    assert forest.predict(far) == forest.predict(edge)
    assert machine.predict(far) > machine.predict(edge)


@pytest.mark.parametrize("name", ["svr", "random-forest"])
def test_intervals_of_a_large_table_are_calibrated_on_all_of_it(monkeypatch, name):
    Model = load_model_class(name)
    monkeypatch.setattr(Model, "most_rows", 150)
    rng = np.random.default_rng(0)
    size = rng.uniform(1, 100, 900)
    y = 0.01 * size * np.exp(np.where(size < 40, 0.01, 0.1) * rng.standard_normal(900))
    train, test = slice(0, 600), slice(600, None)
    X = pd.DataFrame({"size": size})
    low, high = np.asarray(Model(intrinsic=("size",)).fit(X[train], y[train]).predict_interval(X[test]))[:2]
    assert np.mean((low <= y[test]) & (y[test] <= high)) >= 0.85
