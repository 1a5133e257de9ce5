import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import ModelError
from steplab.models.formulas.step_composition import Phases, iteration_time, speedup
from steplab.models.ssgd import SSGD


def phases(**changed):
    layers = np.array([[1.0, 2.0], [1.5, 2.0]])
    values = {
        "t_io": 1.0,
        "t_h2d": 0.5,
        "t_md": 0.25,
        "t_f": layers,
        "t_b": layers,
        "t_c": layers / 2,
        "t_u": 0.1,
    }
    return Phases(**{**values, **changed})


def test_without_overlap_phases_add_and_the_slowest_rank_counts():
    assert iteration_time(phases()) == pytest.approx(1.75 + 3.5 * 2.5 + 0.1)


def test_overlapped_reading_hides_the_shorter_side():
    assert iteration_time(phases(), "io") == pytest.approx(3.5 * 2.5 + 0.1)
    assert iteration_time(phases(t_io=100.0), "io") == pytest.approx(100.75)


def test_overlapped_communication_waits_for_each_layers_gradient():
    # Slower rank: forward 3.5, backward of the last layer until 5.5, of the first until 7.0; the last layer
    # is sent from 5.5 to 6.5, the first when its gradient is there, from 7.0 to 7.75.
    assert iteration_time(phases(), "communication") == pytest.approx(1.75 + 7.75 + 0.1)


def test_communication_can_never_be_better_than_hidden():
    free = phases(t_c=np.zeros((2, 2)))
    assert iteration_time(phases(), "communication") >= iteration_time(free)


def test_speedup_under_weak_scaling():
    assert speedup(np.array([2.0]), np.array([2.5]), np.array([4.0])).tolist() == [3.2]


def study(overlap, rows=60, seed=0):
    rng = np.random.default_rng(seed)
    b, n = rng.choice([8.0, 16.0, 32.0, 64.0], rows), rng.choice([1.0, 2.0, 3.0, 4.0], rows)
    t = {
        "t_io": 0.4 + 0.02 * b, "t_h2d": 0.001 * b, "t_md": 0.01 * (n > 1), "t_f": 0.1 + 0.01 * b,
        "t_b": 0.2 + 0.02 * b, "t_c": 0.3 * (n - 1) + 0.5 * (n - 1) / n, "t_u": np.full(rows, 0.05),
    }  # fmt: skip
    loading = t["t_io"] + t["t_h2d"] + t["t_md"]
    back = np.maximum(t["t_b"], t["t_c"]) if overlap in ("communication", "both") else t["t_b"] + t["t_c"]
    working = t["t_f"] + back + t["t_u"]
    total = np.maximum(loading, working) if overlap in ("io", "both") else loading + working
    return pd.DataFrame({"batch_size": b, "workers": n, **t}), total


@pytest.mark.parametrize("overlap", ["none", "io", "communication", "both"])
def test_phases_reveal_the_overlap_and_predict_more_workers(overlap):
    X, total = study(overlap)
    few = (X["workers"] <= 3).to_numpy()
    model = SSGD(extrinsic=("batch_size", "workers")).fit(X[few], total[few])
    assert model.overlap_ == overlap
    np.testing.assert_allclose(model.predict(X[~few][["batch_size", "workers"]]), total[~few], rtol=0.02)


def test_waiting_for_the_slowest_rank_is_never_hidden():
    X, hidden = study("communication")
    wait = np.where(X["workers"] > 1, 0.5 + 0.01 * X["batch_size"], 0.0)
    X = X.assign(t_c=X["t_c"] + wait, t_wait=wait)
    model = SSGD(extrinsic=("batch_size", "workers")).fit(X, hidden + wait)
    assert model.overlap_ == "communication"
    np.testing.assert_allclose(model.predict(X), hidden + wait, rtol=0.01)
    np.testing.assert_allclose(model.formula().evaluate(X), model.predict(X))


def test_a_model_saved_before_waiting_was_told_apart_can_be_read():
    X, total = study("both")
    model = SSGD(extrinsic=("batch_size", "workers")).fit(X, total)
    state = model._state()
    for laws in state["laws"].values():
        del laws["t_wait"]
    model._restore(state)
    np.testing.assert_allclose(model.predict(X), total, rtol=0.02)


def test_phases_are_not_needed_to_predict():
    X, total = study("none")
    model = SSGD(extrinsic=("batch_size", "workers")).fit(X.drop(columns=["t_f"]), total)
    np.testing.assert_allclose(model.predict(X[["batch_size", "workers"]]), total, rtol=0.05)


def test_the_formula_is_the_prediction():
    X, total = study("both")
    model = SSGD(extrinsic=("batch_size", "workers")).fit(X, total)
    np.testing.assert_allclose(model.formula().evaluate(X), model.predict(X))
    assert "max" in model.formula().text


def test_it_needs_workers_or_batch():
    X, total = study("none")
    with pytest.raises(ModelError, match="needs column 'workers' or 'batch_size'"):
        SSGD(intrinsic=("t_u",)).fit(X, total)


@pytest.mark.parametrize("target", ["throughput", "memory_bytes", "t_iter"])
def test_phases_explain_a_step_and_nothing_else(target):
    X, total = study("none")
    y = {"throughput": X["batch_size"] * X["workers"] / total, "t_iter": total}.get(target, 1e9 + 1e6 * X["batch_size"])
    model = SSGD(extrinsic=("batch_size", "workers")).fit(X, pd.Series(y, name=target))
    assert ("t_f" in model.laws_[""]) == (target == "t_iter")
    assert 0.5 < np.median(model.predict(X) / y) < 2


def test_other_phases_do_not_explain_a_phase():
    X, _ = study("none")
    model = SSGD(extrinsic=("batch_size", "workers")).fit(X.drop(columns="t_io"), X["t_io"])
    np.testing.assert_allclose(model.predict(X), X["t_io"], rtol=0.01)
