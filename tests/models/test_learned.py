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
