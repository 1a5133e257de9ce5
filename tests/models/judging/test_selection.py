import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import NotEnoughData, TableError
from steplab.models import load_model_class
from steplab.models.hybrid import Hybrid
from steplab.models.judging.selection import (
    held_out,
    joined,
    metrics,
    noise_floor,
    parse_holdout,
    random_folds,
    range_split,
)  # fmt: skip

TABLE = pd.DataFrame({"workers": [1, 2, 4, 8], "net": ["a", "a", "b", "b"]})


def test_metrics_of_known_errors():
    found = metrics(np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 4.0]))
    assert found.mae == pytest.approx(1 / 3)
    assert found.mape == pytest.approx(50 / 3)
    assert found.rmse == pytest.approx(np.sqrt(1 / 3))
    assert found.r2 == pytest.approx(1 - 1 / 4.6666667)


def test_a_measured_zero_has_no_relative_error():
    assert metrics(np.array([0.0, 2.0]), np.array([1.0, 1.0])).mape == pytest.approx(50)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("workers>2", [0, 0, 1, 1]), ("workers >= 2", [0, 1, 1, 1]), ("workers<2", [1, 0, 0, 0]),
        ("workers<=2", [1, 1, 0, 0]), ("workers==4", [0, 0, 1, 0]), ("workers!=4", [1, 1, 0, 1]),
        ("net=='b'", [0, 0, 1, 1]), ("net != b", [1, 1, 0, 0]),
    ],
)  # fmt: skip
def test_every_comparison_holds_out_its_rows(text, rows):
    assert parse_holdout(text).rows(TABLE).astype(int).tolist() == rows


@pytest.mark.parametrize(
    ("text", "told"),
    [("workers", "not a comparison"), ("worker>2", "did you mean 'workers'"),
     ("workers>many", "'many' is none"),
     ("net>a", "holds text"), ("workers>99", "no row"), ("workers>0", "every row")],
)  # fmt: skip
def test_a_wrong_holdout_is_told(text, told):
    with pytest.raises(TableError, match=told):
        range_split(TABLE, [parse_holdout(text)])


def test_rows_that_meet_any_condition_are_held_out():
    train, test = range_split(TABLE, [parse_holdout("workers>4"), parse_holdout("workers<2")])[0]
    assert (train.tolist(), test.tolist()) == ([1, 2], [0, 3])


def test_noise_floor_is_the_scatter_of_replicates():
    frame = pd.DataFrame({"x": [1, 1, 2, 2, 3]})
    floor = noise_floor(frame, np.array([1.0, 1.1, 2.0, 2.0, 9.0]))
    assert floor is not None
    assert floor.configurations == 2
    assert floor.mape == pytest.approx(100 * (0.1 / 1.0 + 0.1 / 1.1) / 4)
    assert noise_floor(frame.head(0), np.empty(0)) is None


def test_a_model_that_fails_gives_its_reason():
    frame = pd.DataFrame({"workers": np.arange(1.0, 21), "batch_size": 8.0})
    y = np.linspace(-1, 1, 20)
    splits = random_folds(20, None, 4)
    failed = held_out(Hybrid((), (), ("workers", "batch_size")), frame, y, splits)
    assert failed.score(y) is None
    assert "positive" in failed.reason
    assert held_out(load_model_class("linear")((), (), ("workers",)), frame, y, splits).score(y)[0].mae < 1e-6


def test_too_few_rows_for_the_folds_are_told():
    with pytest.raises(NotEnoughData, match="5 folds"):
        random_folds(4, None, 5)


def test_a_condition_that_is_not_utf8_is_one_sentence():
    frame = pd.DataFrame({"framework": pd.Series(["torch", "jax"], dtype="str")})
    with pytest.raises(TableError, match="cannot be compared"):
        parse_holdout("framework==tor\udcff").rows(frame)


def test_how_errors_grow_outside_is_learned_only_for_a_row_that_is_there(monkeypatch):
    frame = pd.DataFrame({"workers": np.arange(1.0, 21)})
    model = load_model_class("linear")((), (), ("workers",)).fit(frame, 0.01 * frame["workers"])

    def asked(*_):
        raise AssertionError("nobody asked for it")

    monkeypatch.setattr(type(model), "_rates", asked)
    low, high = model.predict_interval(frame)
    assert (low <= high).all()
    with pytest.raises(AssertionError, match="nobody asked"):
        model.predict_interval(pd.DataFrame({"workers": [40.0]}))


def test_predictions_of_several_splits_are_those_of_one_model():
    frame = pd.DataFrame({"workers": np.arange(1.0, 21)})
    y, splits = 0.01 * np.arange(1.0, 21), random_folds(20, None, 4)
    model = load_model_class("linear")((), (), ("workers",))
    whole = held_out(model, frame, y, splits)
    parts = joined([held_out(model, frame, y, [split]) for split in splits])
    for name in ("predicted", "low", "high"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist()


def test_fewer_boosted_trees_are_the_first_of_more():
    rng = np.random.default_rng(0)
    X = rng.random((40, 2))
    model, z = load_model_class("gradient-boosting")(), X[:, 0] ** 2 + X[:, 1]
    settings = [{"trees": trees, "max_depth": depth} for trees in (5, 12) for depth in (2, 3)]
    for setting, shared in zip(settings, model._train_all(X, z, settings), strict=True):
        alone = model._train(X, z, setting)
        assert model._answer(shared, X, X).tolist() == model._answer(alone, X, X).tolist()
