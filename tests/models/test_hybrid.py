import copy
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import ModelError
from steplab.models import model_from_document
from steplab.models.columns.meaning import Parts, find_parts
from steplab.models.formulas import physics
from steplab.models.hybrid import Hybrid
from steplab.models.judging.selection import metrics

DATA = Path(__file__).parents[1] / "data" / "pollux"


def cluster(workers, batches=(8, 16, 32, 64, 128), noise=0.02, seed=0, shared=False):
    """Steps whose law is known: overhead, compute per sample, logarithm of the workers, overlap γ = 3."""
    rng = np.random.default_rng(seed)
    rows = [(n, b) for n in workers for b in batches]
    frame = pd.DataFrame(rows, columns=["gpus", "batch_size"]).astype(float)
    own = frame["batch_size"] / frame["gpus"] if shared else frame["batch_size"]
    compute, sync = 0.02 + 0.002 * own, (frame["gpus"] > 1) * 0.05 + 0.03 * np.log(frame["gpus"])
    time = (compute**3 + sync**3) ** (1 / 3) * (1 + noise * rng.standard_normal(len(frame)))
    return frame, pd.Series(time, name="t_iter")


def test_extrapolates_a_known_law_to_eight_times_the_workers():
    X, y = cluster((1, 2, 3, 4, 6, 8))
    far, truth = cluster((32, 64), noise=0)
    assert metrics(truth.to_numpy(), Hybrid().fit(X, y).predict(far)).mape < 6


@pytest.mark.parametrize(("workload", "limit"), [("yolov3", 8.0), ("deepspeech2", 9.0)])
def test_extrapolates_real_measurements(workload, limit):
    table = pd.read_csv(DATA / f"{workload}-scalability.csv")
    near, far = table[table["num_replicas"] <= 16], table[table["num_replicas"] > 16]
    model = Hybrid(("local_bsz",), (), ("num_nodes", "num_replicas")).fit(near, near["step_time"])
    assert metrics(far["step_time"].to_numpy(), model.predict(far)).mape < limit


def test_notices_that_workers_share_a_batch():
    X, y = cluster((1, 2, 4, 8, 16), shared=True)
    assert Hybrid().fit(X, y).law_.parts.shared
    X, y = cluster((1, 2, 4, 8, 16))
    assert not Hybrid().fit(X, y).law_.parts.shared


def test_scaling_can_be_told():
    X, y = cluster((1, 2, 4, 8), shared=True)
    assert not Hybrid(scaling="weak").fit(X, y).law_.parts.shared
    with pytest.raises(ModelError, match="scaling"):
        Hybrid(scaling="sideways").fit(X, y)


def test_columns_of_other_names_can_be_told():
    X, y = cluster((1, 2, 4, 8))
    renamed = X.rename(columns={"gpus": "p", "batch_size": "m"})
    told = Hybrid(workers="p", batch="m").fit(renamed, y)
    np.testing.assert_allclose(told.predict(renamed), Hybrid().fit(X, y).predict(X), rtol=1e-6)
    with pytest.raises(ModelError, match="workers is 'q'"):
        Hybrid(workers="q").fit(renamed, y)


@pytest.mark.parametrize(
    ("names", "workers", "batch", "nodes"),
    [
        (("num_nodes", "num_replicas", "local_bsz"), "num_replicas", "local_bsz", "num_nodes"),
        (("World Size", "Batch size [images]"), "World Size", "Batch size [images]", ""),
        (("hosts", "filters"), "hosts", "", ""),
        (("filters", "kernel"), "", "", ""),
    ],
)
def test_recognises_common_names(names, workers, batch, nodes):
    parts = find_parts(pd.DataFrame([[1.0] * len(names)], columns=names), names)
    assert (parts.workers, parts.batch, parts.nodes) == (workers, batch, nodes)


def test_without_workers_and_batch_it_is_a_product_of_powers():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"filters": rng.choice([4.0, 8.0, 16.0, 32.0], 80), "pool": rng.choice(["max", "mean"], 80)})
    y = 0.01 * X["filters"] ** 1.2 * np.where(X["pool"] == "max", 1.5, 1.0)
    model = Hybrid().fit(X, y)
    assert metrics(y.to_numpy(), model.predict(X)).mape < 1
    assert "filters^" in model.formula().text


def test_every_coefficient_has_a_meaning_and_an_interval():
    X, y = cluster((1, 2, 4, 8, 16))
    found = {p.symbol: p for p in Hybrid().fit(X, y).parameters()}
    assert found["c_1"].low < 0.002 < found["c_1"].high
    assert found["c_1"].identified
    assert all(p.name and p.low <= p.value <= p.high for p in found.values())


def test_what_the_data_do_not_determine_is_marked():
    X, y = cluster((4,), batches=(64, 128, 256, 512, 1024))
    found = {p.symbol: p for p in Hybrid().fit(X, y).parameters()}
    assert not found["p"].identified


def test_half_of_the_correction_fades_far_from_the_data():
    X, y = cluster((1, 2, 4, 8))
    bent = y * (1 + 0.2 * np.sin(np.log2(X["batch_size"]) * 2))
    model = Hybrid().fit(X, bent)
    assert len(model.correction_.points)
    far = pd.DataFrame({"gpus": [4000.0], "batch_size": [64000.0]})
    border = pd.DataFrame({"gpus": [8.0], "batch_size": [128.0]})
    stays = np.sqrt(model.predict(border) / model.law().evaluate(border))  # half of it, in logarithms
    np.testing.assert_allclose(model.predict(far), stays * model.law().evaluate(far), rtol=1e-3)
    np.testing.assert_allclose(model.formula().evaluate(far), model.predict(far), rtol=1e-9)
    assert metrics(bent.to_numpy(), model.predict(X)).mape < metrics(bent.to_numpy(), model.law().evaluate(X)).mape


@pytest.mark.parametrize("shared", [False, True])
def test_below_one_worker_the_formula_says_what_predict_says(shared):
    X, y = cluster((1, 2, 4, 8), shared=shared)
    X["nodes"] = np.ceil(X["gpus"] / 2)
    model = Hybrid().fit(X, y)
    asked = pd.DataFrame({"gpus": [0.0, 0.5, 1.0, 3.0], "batch_size": 32.0, "nodes": [0.0, 0.2, 3.0, 4.0]})
    assert np.isfinite(model.predict(asked)).all()
    np.testing.assert_allclose(model.formula().evaluate(asked), model.predict(asked), rtol=1e-9)


def test_what_the_largest_count_shows_stays_beyond_it():
    X, y = cluster((1, 2, 4, 8))
    odd = y * np.where(X["gpus"] == 8, 1.15, 1.0)
    model = Hybrid().fit(X, odd)
    near = pd.DataFrame({"gpus": [8.0, 10.0], "batch_size": [32.0, 32.0]})
    kept = np.log(model.predict(near) / model.law().evaluate(near))
    assert len(model.correction_.points) and kept[1] > 0.5 * kept[0] > 0
    # A copy of the rows up to an inner border keeps what that border shows, as the model does at its own.
    rows = (X["gpus"] <= 4).to_numpy()
    inner = model._border_copy(X[rows], odd[rows].to_numpy(), None)
    assert inner.held_["gpus"] == (1.0, 4.0) and model.held_["gpus"] == (1.0, 8.0)


def test_a_target_of_zero_is_refused_in_one_sentence():
    X, y = cluster((1, 2, 4, 8))
    with pytest.raises(ModelError, match="times, which are positive"):
        Hybrid().fit(X, y - y.min())


@pytest.mark.parametrize(
    "parts", [Parts("n", "m", "k"), Parts("n", "m"), Parts("n", "m", shared=True), Parts("", "m")]
)  # fmt: skip
def test_derivatives_of_the_law_are_those_of_differences(parts):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "n": rng.choice([1.0, 2.0, 4.0, 8.0], 40), "m": rng.choice([8.0, 16.0], 40), "f": rng.uniform(1, 9, 40),
        "g": rng.uniform(-1, 1, 40), "o": rng.choice(["u", "v"], 40),
    })  # fmt: skip
    frame["k"] = np.minimum(frame["n"], 2)
    law = physics.StepLaw(parts, tuple(physics.factors(frame, ["f", "g"], {"o": ("u", "v")})))
    theta, at = rng.normal(0, 0.5, len(law.names)), law.inputs(frame)
    steps = 1e-5 * np.eye(len(theta))
    logs = [[np.log(physics.step_time(law, theta + sign * step, at)) for sign in (1, -1)] for step in steps]
    expected = np.column_stack([(up - down) / 2e-5 for up, down in logs])
    np.testing.assert_allclose(physics.log_gradient(law, theta, at), expected, atol=1e-5)


@pytest.fixture(scope="module")
def document():
    """A saved model with a correction."""
    X, y = cluster((1, 2, 3, 4), noise=0.0)
    saved = Hybrid().fit(X, y * (1 + 0.2 * np.sin(X["batch_size"])))
    assert len(saved.correction_.points)
    return json.loads(json.dumps(saved.to_document()))


@pytest.mark.parametrize("part", ["lengths", "points", "weights"])
def test_a_correction_of_another_shape_is_damaged(document, part):
    damaged = copy.deepcopy(document)
    correction = damaged["state"]["correction"]
    if part == "lengths":
        correction |= {"lengths": [1.0], "points": [row[:1] for row in correction["points"]]}
    else:
        correction[part] = correction[part][:-1]
    with pytest.raises(ModelError, match="the saved model is damaged"):
        model_from_document(damaged)


@pytest.mark.parametrize("role", ["intrinsic", "extrinsic"])
def test_a_column_with_two_roles_is_damaged(document, role):
    damaged = copy.deepcopy(document)
    damaged["roles"][role] = damaged["roles"][role] + ["gpus", "gpus"]
    with pytest.raises(ModelError, match="a column has two roles"):
        model_from_document(damaged)


def wired(rates, workers=(1, 2, 4, 8), seed=0):
    """Steps of a law whose exchange a profile knows to a factor of 1.2: nothing overlaps."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame([(n, b, r) for n in workers for b in (16, 64) for r in rates], columns=["workers", "b", "r"])
    exchange = np.where(frame["workers"] > 1, 2 * (1 - 1 / frame["workers"]) * 4.0 / frame["r"], 0.0)
    time = 0.02 + 0.001 * frame["b"] + 0.005 * (frame["workers"] > 1) + 1.2 * exchange
    X = pd.DataFrame({"workers": frame["workers"] * 1.0, "batch_size": frame["b"] * 1.0, "exchange_s": exchange})
    return X, pd.Series(time * np.exp(0.02 * rng.standard_normal(len(frame))), name="t_iter")


def test_a_profiles_exchange_carries_over_to_another_network():
    X, y = wired((1000.0, 250.0))
    model = Hybrid(extrinsic=("workers", "batch_size", "exchange_s")).fit(X, y)
    wire = next(parameter for parameter in model.parameters() if parameter.symbol == "w_0")
    assert wire.low < 1.2 < wire.high
    far, truth = wired((40.0,), workers=(2, 8), seed=1)
    # Six times as slow as anything measured; without the column's meaning it errs by more than half.
    assert metrics(truth.to_numpy(), model.predict(far)).mape < 12
    np.testing.assert_allclose(model.law().evaluate(far), model._law_time(far), rtol=1e-9)
    again = model_from_document(json.loads(json.dumps(model.to_document())))
    np.testing.assert_allclose(again.predict(far), model.predict(far))


def test_the_slopes_of_a_law_with_a_profile_are_its_derivatives():
    X, _ = wired((1000.0, 250.0))
    X["padding"] = np.where(np.arange(len(X)) % 3, "same", "valid")
    levels = {"padding": ("same", "valid")}
    law = physics.StepLaw(find_parts(X, ["workers", "batch_size", "exchange_s"]), tuple(physics.factors(X, [], levels)))
    at, theta = law.inputs(X), np.linspace(-3, 0.5, len(law.names))
    exact = physics.log_gradient(law, theta, at)
    for column in range(len(theta)):
        step = np.where(np.arange(len(theta)) == column, 1e-6, 0)
        up, down = (np.log(physics.step_time(law, theta + sign * step, at)) for sign in (1, -1))
        np.testing.assert_allclose(exact[:, column], (up - down) / 2e-6, atol=1e-6, err_msg=law.names[column])
