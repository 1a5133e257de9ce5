"""What every framework that trains must satisfy: a state comes back whole, and looking uses running means."""

from __future__ import annotations

import pytest

from steplab.core import catalogue

TRAINING = [name for name in catalogue.framework_names() if "train" in catalogue.framework(name).kinds]
REAL = [name for name in TRAINING if catalogue.framework(name).needs_environment]
RESNET = {"network": "resnet18", "shape": (3, 16, 16), "learning_rate": 0.001}


def test_all_five_frameworks_train():
    assert set(REAL) - set(catalogue.framework_extensions()) == {"torch", "tensorflow", "jax", "mxnet", "chainer"}


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("framework", REAL)
def test_a_restored_state_goes_on_as_if_nothing_had_happened(ranks, framework, optimizer):
    proof = {"proof": "continuing", "reference": str(ranks.folder / "outputs.npz"), "write": True}
    (found,) = ranks.run(framework, proof, network="mlp", optimizer=optimizer)
    assert found["second"] == pytest.approx(found["first"], rel=1e-6)
    assert found["lost"] == []
    # Weights, as many arrays for each of the optimiser's moments, and counters.
    moments = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    assert len(found["moved"]) >= (1 + moments) * 2


@pytest.mark.parametrize("framework", [name for name in REAL if name != "torch"])
def test_batch_normalisation_looks_at_running_means_as_pytorch_does(ranks, framework):
    """After three steps the running means are far from the batch's own; biased variances would make it 3e-3."""
    _, found = ranks.against_torch(framework, "continuing", **RESNET)
    assert found["differences"]["outputs"] < 1e-4
    assert found["second"] == pytest.approx(found["first"], rel=1e-5)
    assert found["lost"] == []


WAYS = [("torch", {}), ("tensorflow", {}), ("tensorflow", {"distribution": "mirrored"}), ("jax", {}), ("mxnet", {}),
        ("chainer", {})]  # fmt: skip


@pytest.mark.parametrize(("framework", "options"), WAYS)
def test_one_of_two_ranks_may_look_alone_and_both_go_back(ranks, framework, options):
    proof = {"proof": "continuing", "reference": str(ranks.folder / "outputs.npz"), "write": True}
    for found in ranks.run(framework, proof, workers=2, network="lenet5", optimizer="momentum", options=options):
        assert found["second"] == pytest.approx(found["first"], rel=1e-5)
        assert found["lost"] == []
