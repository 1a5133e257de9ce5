"""The contract that every discovered performance model keeps; a new model file is covered at once."""

import copy
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from steplab.api.modelling.model_file import read_model, write_model
from steplab.core.errors import ModelError, NotEnoughData
from steplab.models import load_model_class, model_from_document, model_names, model_summaries

ROLES = {
    "intrinsic": ("filters",),
    "categorical": ("padding",),
    "extrinsic": ("batch_size", "workers", "lif"),
}


def table(rows=90, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({
        "filters": rng.choice([4.0, 8.0, 16.0, 32.0], rows),
        "padding": rng.choice(["same", "valid"], rows),
        "batch_size": rng.choice([8.0, 16.0, 32.0, 64.0], rows),
        "workers": rng.choice([1.0, 2.0, 4.0, 8.0], rows),
        "lif": rng.uniform(1, 1.5, rows),
    })  # fmt: skip
    level = np.where(X["padding"] == "same", 2.0, 1.0)
    work = (0.4 * X["filters"] ** 0.8 + level) * X["batch_size"] ** 0.7 * X["workers"] ** -0.8 + 3
    return X, pd.Series(work * (1 + 0.02 * rng.standard_normal(rows)), name="t_iter")


def fresh(name):
    cls = load_model_class(name)
    return cls(**ROLES, **cls.quick_options)


@pytest.fixture(scope="module", params=model_names())
def fitted(request):
    X, y = table()
    return fresh(request.param).fit(X, y), X, y


def test_models_are_listed_with_a_sentence_each():
    assert "generic" in model_names()
    assert all(summary.endswith((".", ":")) for summary in model_summaries().values())


def test_listing_imports_no_model():
    code = "import sys, steplab.models as m; m.model_names(); print({'sklearn', 'pandas'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ModelError, match="did you mean 'generic'"):
        load_model_class("genric")


@pytest.mark.parametrize("name", model_names())
def test_clones_and_parameters_survive(name):
    model = fresh(name)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(extrinsic=("workers",)).extrinsic == ("workers",)


@pytest.mark.parametrize("name", model_names())
def test_one_or_two_rows_are_not_enough(name):
    X, y = table()
    for rows in (1, 2):
        with pytest.raises(NotEnoughData):
            fresh(name).fit(X.head(rows), y.head(rows))


def test_predicts_one_finite_number_per_row(fitted):
    model, X, _ = fitted
    predicted = model.predict(X.head(7))
    assert predicted.shape == (7,)
    assert np.isfinite(predicted).all()


def test_explains_most_of_what_it_was_fitted_to(fitted):
    model, X, y = fitted
    if model.ignores_columns:  # the exception must be true: such a column changes nothing
        np.testing.assert_array_equal(model.predict(X.assign(filters=7.0 * X["filters"])), model.predict(X))
        return
    assert np.mean(np.abs(model.predict(X) - y)) < 0.6 * np.mean(np.abs(y - y.median()))


def test_row_order_does_not_matter(fitted):
    model, X, y = fitted
    order = np.random.default_rng(5).permutation(len(X))
    other = clone(model).fit(X.iloc[order], y.iloc[order])
    np.testing.assert_allclose(other.predict(X), model.predict(X), rtol=1e-9)


def test_the_unit_of_the_target_does_not_matter(fitted):
    model, X, y = fitted
    other = clone(model).fit(X, y * 1024)
    np.testing.assert_allclose(other.predict(X), 1024 * model.predict(X), rtol=1e-4)
    np.testing.assert_allclose(other.predict_interval(X)[0], 1024 * model.predict_interval(X)[0], rtol=1e-3, atol=1)


def test_the_unit_of_a_column_does_not_matter(fitted):
    model, X, y = fitted
    scaled = X.assign(filters=X["filters"] * 1024)
    found = clone(model).fit(scaled, y).predict(scaled)
    if model.column_units_matter:  # the exception must be true
        assert not np.allclose(found, model.predict(X), rtol=1e-4)
        return
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-4)


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    model, X, _ = fitted
    write_model(model, tmp_path / "model.json")
    other = read_model(tmp_path / "model.json")
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    np.testing.assert_array_equal(other.predict_interval(X), model.predict_interval(X))
    assert other.inside(X).outside == model.inside(X).outside
    assert [p.name for p in other.parameters()] == [p.name for p in model.parameters()]


@pytest.mark.parametrize("name", model_names())
def test_levels_of_any_type_and_phases_are_saved(name, tmp_path):
    """As a study's table has them: several categorical columns, numbers and flags as levels, phase columns."""
    X, y = table()
    X = X.assign(depth=1 + np.arange(len(X)) % 2, fused=np.arange(len(X)) % 3 == 0)
    X = X.assign(t_f=0.3 * y, t_b=0.6 * y, t_c=0.1 * y * (X["workers"] > 1))
    cls = load_model_class(name)
    roles = ROLES | {"categorical": ("padding", "depth", "fused")}
    model = cls(**roles, **cls.quick_options).fit(X, y)
    write_model(model, tmp_path / "model.json")
    np.testing.assert_array_equal(read_model(tmp_path / "model.json").predict(X), model.predict(X))


def test_the_formula_computes_the_prediction(fitted):
    model, X, _ = fitted
    formula = model.formula()
    if formula is None:
        assert model.without_formula  # declared, with its reason
        return
    far = X.assign(workers=64.0, batch_size=1.0, filters=1000.0)
    for rows in (X, far):
        np.testing.assert_allclose(formula.evaluate(rows), model.predict(rows), rtol=1e-6)
    assert formula.text and formula.latex
    json.dumps(formula.tree, allow_nan=False)


def test_intervals_contain_the_prediction_and_grow_with_the_level(fitted):
    model, X, _ = fitted
    predicted = model.predict(X)
    (low, high), (lower, higher) = model.predict_interval(X, 0.5), model.predict_interval(X, 0.95)
    assert np.all(lower <= low) and np.all(high <= higher)
    # A straight line may predict a negative time; no interval of a time holds that.
    possible = predicted > 0
    assert possible.any() and np.all(lower > 0)
    assert np.all(low[possible] <= predicted[possible]) and np.all(predicted[possible] <= high[possible])


def test_intervals_widen_outside_of_the_measured_range(fitted):
    model, X, _ = fitted
    far = X.head(1).assign(workers=64.0)
    near = X.head(1).assign(workers=8.0)
    if model.predict(far)[0] <= 0:
        low, high = model.predict_interval(far)
        assert 0 < low <= high  # a straight line that has left what a time can be
        return
    widths = [float(np.ptp(model.predict_interval(x))) for x in (near, far)]
    shares = [width / abs(model.predict(x)[0]) for width, x in zip(widths, (near, far), strict=True)]
    # Which of the two shows it depends on whether the prediction itself grows or shrinks.
    assert widths[1] > widths[0] or shares[1] > shares[0]


def test_says_which_factor_is_outside(fitted):
    model, X, _ = fitted
    asked = X.head(2).assign(workers=[4.0, 64.0])
    answer = model.inside(asked)
    assert answer.rows.tolist() == [True, False]
    assert answer.outside == ((), ("workers",))


def test_an_unmeasured_level_is_refused_by_name(fitted):
    model, X, _ = fitted
    with pytest.raises(ModelError, match="'full' was not measured"):
        model.predict(X.head(1).assign(padding="full"))


def test_a_missing_column_is_named(fitted):
    model, X, _ = fitted
    with pytest.raises(ModelError, match="no column 'filters'"):
        model.predict(X.drop(columns="filters"))


def test_an_unfitted_model_says_so():
    for name in model_names():
        with pytest.raises(ModelError, match="has not been fitted"):
            fresh(name).predict(table()[0])


def test_scikit_learn_can_cross_validate_a_model():
    X, y = table()
    scores = cross_val_score(fresh("linear"), X, y, cv=3, error_score="raise")
    assert np.isfinite(scores).all()


HOSTILE = {
    "no state": lambda d: d.pop("state"),
    "state of another kind": lambda d: d.update(state=[1, 2]),
    "empty state": lambda d: d.update(state={}),
    "wrong version": lambda d: d.update(version=99),
    "unknown model": lambda d: d.update(model="os.system"),
    "a path as a model": lambda d: d.update(model="../base"),
    "unknown option": lambda d: d["options"].update(__class__="x"),
    "range upside down": lambda d: d["range"].update(filters=[9, 1]),
    "range not numbers": lambda d: d["range"].update(filters=["a", None]),
    "roles not names": lambda d: d["roles"].update(intrinsic=[{"a": 1}]),
    "scores missing": lambda d: d["interval"].update(scores=[]),
    "levels not a list": lambda d: d["levels"].update(padding="same"),
}


@pytest.mark.parametrize("damage", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_damaged_document_is_a_model_error(fitted, damage):
    document = copy.deepcopy(fitted[0].to_document())
    damage(document)
    with pytest.raises(ModelError):
        model_from_document(document)


@pytest.mark.parametrize("document", [None, [], "generic", {}, {"model": 3}, {"model": "generic"}])
def test_what_is_no_model_is_a_model_error(document):
    with pytest.raises(ModelError):
        model_from_document(document)


SPOILED = 40  # numbers of a state that are spoiled one after the other


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_numbers_in_the_state_must_be_finite(fitted, value):
    document = json.loads(json.dumps(fitted[0].to_document()))
    places = list(_numbers(document["state"]))
    assert places
    for holder, key in places[:: -(-len(places) // SPOILED)]:
        kept, holder[key] = holder[key], value
        with pytest.raises(ModelError, match="damaged"):
            model_from_document(document)
        holder[key] = kept
    model_from_document(document)  # put back, it is whole again


def _numbers(node):
    """Where the numbers of a state stand: the list or object, and the index or name in it."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(value, dict | list):
            yield from _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield node, key
