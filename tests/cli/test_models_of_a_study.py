"""fit, compare, predict and penalty on a study's folder, as a person would call them."""

import pytest

NARROW = {"COLUMNS": "80"}
MEASURED = ("t_f", "t_iter_low", "spread", "drift", "seconds", "memory_bytes", "loss", "replicate", "trial")


@pytest.fixture
def study(steplab, study_file):
    path = study_file("small", batch_size=[8, 16, 32, 64], workers=[1, 2, 4], noise=0.02)
    assert steplab("run", path, "--out", "runs/small").code == 0
    return "runs/small"


def width(text):
    return max(len(line.rstrip()) for line in text.splitlines())


def test_from_a_study_to_a_prediction(steplab, study):
    fitted = steplab("fit", study, "--out", "m.json", env=NARROW)
    assert fitted.code == 0, fitted.err
    assert "roles inferred: extrinsic batch_size, workers" in fitted.err
    assert not any(name in fitted.out for name in MEASURED)
    assert "next: steplab predict m.json --at batch_size=64,workers=4" in fitted.err
    told = steplab("predict", "m.json", "--at", "batch_size=64,workers=8", env=NARROW)
    assert "OUTSIDE: workers" in told.out
    assert width(told.out) <= 80


def test_compare_keeps_replicates_together_and_tells_the_noise(steplab, study):
    told = steplab("compare", study, "--models", "linear,hybrid", env=NARROW)
    assert "replicates together" in told.out
    assert "noise floor: MAPE" in told.out
    assert width(told.out) <= 80
    assert "next: steplab fit runs/small --model" in told.err
    document = steplab("compare", study, "--models", "linear", "--holdout", "workers>2", "--json").json
    assert (document["train_rows"], document["test_rows"]) == (16, 8)


def test_penalty_scans_a_study(steplab, study):
    document = steplab("penalty", study, "--json").json
    assert {row["penalty"] for row in document["rows"]} == {"l1", "l2"}
    assert set(document["rows"][0]["parameters"]) >= {"batch_size.q", "workers.q"}
