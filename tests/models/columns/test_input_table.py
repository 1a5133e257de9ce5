"""What a model takes as X and y, and what it remembers of their columns."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning, NotFittedError

from steplab.core.errors import ModelError
from steplab.models import model_from_document
from steplab.models.linear import Linear


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"workers": rng.choice([1.0, 2.0, 4.0], 30), "filters": rng.choice([8.0, 16.0, 32.0], 30)})
    return X, pd.Series(3 + 2 * X["filters"] - X["workers"] + rng.normal(0, 0.1, 30), name="t_iter")


def test_an_array_is_a_table_with_columns_x0_x1(table):
    X, y = table
    named = X.set_axis(["x0", "x1"], axis=1)
    model = Linear().fit(X.to_numpy(), y)
    assert model.roles_.columns == ("x0", "x1")
    np.testing.assert_array_equal(model.predict(X.to_numpy()), Linear().fit(named, y).predict(named))
    np.testing.assert_array_equal(model.predict_interval(X.to_numpy()), model.predict_interval(named))
    assert model.inside(X.to_numpy()).rows.all()


def test_lists_and_numbered_columns_are_arrays(table):
    X, y = table
    expected = Linear().fit(X.to_numpy(), y).predict(X.to_numpy())
    for given in (X.to_numpy().tolist(), X.set_axis([0, 1], axis=1), X.to_numpy().astype(object)):
        np.testing.assert_allclose(Linear().fit(given, y.tolist()).predict(given), expected)


def test_an_arrow_table_is_a_table(table):
    X, y = table
    arrow = pa.Table.from_pandas(X)
    np.testing.assert_array_equal(Linear().fit(arrow, y).predict(arrow), Linear().fit(X, y).predict(X))


def test_the_columns_of_fit_are_remembered(table):
    X, y = table
    by_name, by_order = Linear("filters").fit(X, y), Linear("x1").fit(X.to_numpy(), y)
    assert (by_name.n_features_in_, by_name.feature_names_in_.tolist()) == (2, ["workers", "filters"])
    assert by_order.n_features_in_ == 2
    assert not hasattr(by_order, "feature_names_in_")


def test_columns_of_a_table_are_taken_by_name_in_any_order(table):
    X, y = table
    model = Linear().fit(X, y)
    np.testing.assert_array_equal(model.predict(X[["filters", "workers"]].assign(unused=1.0)), model.predict(X))


def test_an_array_after_a_table_is_taken_in_its_order_with_a_warning(table):
    X, y = table
    model = Linear().fit(X, y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        predicted = model.predict(X.to_numpy())
    np.testing.assert_array_equal(predicted, model.predict(X))


def test_another_number_of_columns_is_refused(table):
    X, y = table
    model = Linear().fit(X.to_numpy(), y)
    with pytest.raises(ModelError, match="X has 1 features, but Linear is expecting 2"):
        model.predict(X.to_numpy()[:, :1])


def test_a_saved_model_of_an_array_takes_arrays(table):
    X, y = table
    model = Linear("x1").fit(X.to_numpy(), y)
    document = model.to_document()
    assert document["features"] == 2
    np.testing.assert_array_equal(model_from_document(document).predict(X.to_numpy()), model.predict(X.to_numpy()))


def test_a_saved_model_of_a_table_asks_for_its_names(table):
    X, y = table
    document = Linear().fit(X, y).to_document()
    assert "features" not in document
    loaded = model_from_document(document)
    assert set(loaded.feature_names_in_) == {"workers", "filters"}
    with pytest.raises(ModelError, match="knows its columns by name, not by order; give a table with the columns"):
        loaded.predict(X.to_numpy())


@pytest.mark.parametrize("count", [1, "2", 2.0, True, -1])
def test_a_damaged_number_of_columns_is_refused(table, count):
    X, y = table
    document = Linear().fit(X.to_numpy(), y).to_document() | {"features": count}
    with pytest.raises(ModelError, match="damaged"):
        model_from_document(document)


def test_text_in_an_array_is_a_category_where_told(table):
    y = table[1]
    text = np.array([["same", 1.0], ["valid", 2.0]] * 15, dtype=object)
    model = Linear(categorical="x0", intrinsic=["x1"]).fit(text, y)
    assert model.levels_ == {"x0": ("same", "valid")}
    assert np.isfinite(model.predict(text)).all()


REFUSED = {
    "sparse": (lambda X: sparse.csr_array(X), TypeError, "[Ss]parse"),
    "complex": (lambda X: X + 1j, ValueError, "Complex data not supported"),
    "one-dimensional": (lambda X: X[:, 0], ValueError, "Reshape your data"),
    "missing values": (lambda X: np.where(X > 30, np.nan, X), ValueError, "NaN"),
    "text": (lambda X: X.astype(str) + "a", ValueError, "could not convert string to float"),
    "objects": (lambda X: [[{}, 1.0]] * len(X), TypeError, "argument must be a string or a real number"),
    "mixed names": (lambda X: pd.DataFrame(X, columns=["a", 1]), TypeError, "string names"),
    "no columns": (lambda X: X[:, :0], ValueError, r"0 feature\(s\)"),
}


@pytest.mark.parametrize(("spoil", "kind", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_input_is_one_sentence_of_both_kinds(table, spoil, kind, words):
    X, y = table
    with pytest.raises(ModelError, match=words) as caught:
        Linear().fit(spoil(X.to_numpy()), y)
    assert isinstance(caught.value, kind)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_an_unfitted_model_raises_what_scikit_learn_expects(table):
    with pytest.raises(NotFittedError, match="has not been fitted") as caught:
        Linear().predict(table[0])
    assert isinstance(caught.value, ModelError)


def test_a_fit_that_fails_leaves_no_half_of_the_one_before(table):
    X, y = table
    model = Linear().fit(X, y)
    with pytest.raises(ModelError):
        model.fit(X.assign(workers=np.nan), y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_column_vector_of_targets_is_taken_with_a_warning(table):
    X, y = table
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = Linear().fit(X, y.to_numpy()[:, None])
    np.testing.assert_array_equal(model.predict(X), Linear().fit(X, y).predict(X))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (None, "requires y to be passed"),
        (np.ones(29), "30 rows and 29 target values"),
        (np.full(30, np.nan), "missing or infinite"),
        (np.ones((30, 2)), "y should be a 1d array"),
        (["a"] * 30, "could not convert string to float"),
        (np.ones(30) + 1j, "Complex data not supported"),
    ],
)
def test_a_bad_target_is_refused(table, target, words):
    with pytest.raises(ModelError, match=words):
        Linear().fit(table[0], target)


def test_groups_must_match_the_rows(table):
    X, y = table
    with pytest.raises(ModelError, match="30 rows and 3 groups"):
        Linear().fit(X, y, [1, 2, 3])


@pytest.mark.parametrize("role", ["intrinsic", "categorical", "extrinsic"])
def test_a_text_given_as_a_role_is_one_column(table, role):
    X, y = table
    model = Linear(**{role: "workers"}).fit(X, y)
    assert model.roles_.columns == ("workers",)
    assert getattr(model, role) == "workers"  # what was given stays as it is
    assert model.to_document()["options"][role] == ["workers"]
    np.testing.assert_array_equal(model_from_document(model.to_document()).predict(X), model.predict(X))


def test_fitting_an_array_gives_no_warning(table):
    X, y = table
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Linear().fit(X.to_numpy(), y.to_numpy()).predict(X.to_numpy())
