import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import ModelError
from steplab.models.auto import Auto


def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.uniform(1, 10, 60), "depth": rng.integers(1, 9, 60).astype(float)})
    return X, 5 - 0.3 * X["size"] + X["depth"]


def test_chooses_the_model_that_made_the_data_and_says_why():
    X, y = table()
    model = Auto(("size", "depth"), among=("pmnf", "linear")).fit(X, y)
    assert model.chosen_.name() == "linear"
    assert model.why().startswith("linear has the least held-out error: linear 0.0 %, pmnf")


def test_a_candidate_that_cannot_be_fitted_is_passed_over():
    X, y = table()
    model = Auto(("size", "depth"), among=("hybrid", "linear")).fit(X, y - 100)
    assert model.chosen_.name() == "linear"
    assert "hybrid could not be fitted" in model.why()


def test_no_candidate_at_all_is_an_error_with_a_reason():
    X, y = table()
    with pytest.raises(ModelError, match="positive"):
        Auto(("size", "depth"), among=("hybrid",)).fit(X, y - 100)


def test_models_that_search_are_tried_with_few_columns_or_when_asked_for():
    X, y = table()
    many = X.assign(**{f"x{i}": X["size"] ** 0.5 + i for i in range(2)})
    names = tuple(many.columns)
    assert [t.model for t in Auto(names).fit(many, y).trials_] == ["hybrid", "generic", "quadratic", "linear"]
    asked = Auto(names, among=("pmnf", "linear")).fit(many, y)
    assert [t.model for t in asked.trials_] == ["pmnf", "linear"]
