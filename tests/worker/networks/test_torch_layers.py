"""PyTorch's layers compute what the kinds define, and learn."""

import math

import pytest

from steplab_worker.layers import ACTIVATIONS, KINDS

CASES = [
    ("conv", [(4, 9)], {"filters": 6, "kernel": 3, "stride": 2, "padding": "same"}),
    ("conv", [(4, 7, 8)], {"filters": 6, "kernel": (3, 2), "padding": "same", "groups": 2}),
    ("conv", [(4, 7, 8)], {"filters": 4, "kernel": 3, "padding": ((0, 2), (1, 0)), "groups": 4, "bias": False}),
    ("conv", [(2, 6, 5, 7)], {"filters": 3, "kernel": 4, "stride": (1, 2, 1), "padding": "same"}),
    ("dense", [(5,)], {"units": 3}),
    ("dense", [(2, 5)], {"units": 3, "bias": False}),
    ("max_pool", [(2, 7, 8)], {"kernel": 3, "stride": 2, "padding": 1}),
    ("max_pool", [(2, 9)], {"kernel": 4, "padding": "same"}),
    ("max_pool", [(2, 6, 6, 6)], {"kernel": 2}),
    ("avg_pool", [(2, 7, 8)], {"kernel": 3, "stride": 2, "padding": 1}),
    ("avg_pool", [(2, 7, 8)], {"kernel": 2, "padding": "same"}),
    ("avg_pool", [(2, 7)], {"kernel": 3, "padding": ((0, 2),)}),
    ("avg_pool", [(2, 4, 5, 6)], {"kernel": 2}),
    ("adaptive_avg_pool", [(3, 7, 2)], {"outputs": (3, 6)}),
    ("adaptive_avg_pool", [(3, 7)], {"outputs": 4}),
    ("adaptive_avg_pool", [(3, 4, 5, 6)], {"outputs": 2}),
    ("global_avg_pool", [(3, 4, 5)], {}),
    ("batch_norm", [(3,)], {}),
    ("batch_norm", [(3, 6)], {"epsilon": 0.01}),
    ("batch_norm", [(3, 4, 5)], {}),
    ("batch_norm", [(3, 2, 4, 5)], {}),
    ("layer_norm", [(3, 6)], {"epsilon": 0.01}),
    *(("activation", [(3, 4)], {"function": name}) for name in ACTIVATIONS),
    ("dropout", [(3, 4)], {"rate": 0.5}),
    ("drop_path", [(3, 4)], {"rate": 0.5}),
    ("add", [(3, 4), (3, 4), (3, 4)], {}),
    ("multiply", [(3, 4, 5), (3,)], {}),
    ("multiply", [(3, 4, 5), (3, 4, 5)], {}),
    ("scale", [(3, 4)], {"initial": 0.1}),
    ("concat", [(3, 4, 5), (2, 4, 5)], {}),
    ("attention", [(4, 3, 2), (4, 3, 2), (6, 3, 2)], {"heads": 2}),
    ("attention", [(4, 5), (4, 5), (4, 5)], {"scale": 1.0}),
    ("flatten", [(3, 4, 5)], {}),
    ("reshape", [(3, 4, 5)], {"shape": (5, 12)}),
    ("upsample", [(3, 4, 5)], {"factor": (2, 3)}),
    ("upsample", [(3, 4)], {"factor": 2}),
    ("embedding", [(5,)], {"tokens": 7, "width": 3}),
    ("position_embedding", [(5, 3)], {}),
    ("position_embedding", [(5, 3)], {"rows": 2}),
    ("class_token", [(5, 3)], {}),
    ("sequence", [(3, 2, 4)], {}),
    ("part", [(5, 3)], {"start": 1, "stop": 4}),
    ("self_attention", [(5, 12)], {"heads": 2}),
    ("self_attention", [(5, 12)], {"heads": 2, "causal": True}),
    ("tied_dense", [(5, 3)], {"to": "tokens", "units": 7}),
]
TRAINED = [
    ("lenet5", "mnist", {"count": 256, "steps": 24, "batch": 32, "rate": 0.05}),
    ("resnet18", "cifar10", {"count": 64, "steps": 12, "batch": 16, "rate": 0.02, "options": {"filters": 16}}),
    (
        "resattnet3d18",
        "adni",
        {"count": 16, "steps": 12, "batch": 8, "rate": 0.02, "shrink": 4, "options": {"filters": 16}},
    ),
    ("mlp", "mnist", {"count": 64, "steps": 3, "batch": 16, "rate": 0.05}),
    ("autoencoder", "fashion-mnist", {"count": 64, "steps": 3, "batch": 16, "rate": 0.05}),
    ("cnn9", "cifar10", {"count": 64, "steps": 3, "batch": 8, "rate": 0.05}),
    ("resnet50", "cifar100", {"count": 100, "steps": 3, "batch": 4, "rate": 0.01}),
    ("alexnet", "tinyimagenet", {"count": 200, "steps": 3, "batch": 4, "rate": 0.01}),
    ("efficientnet_b0", "tinyimagenet", {"count": 200, "steps": 3, "batch": 4, "rate": 0.01}),
]
LEARNING = ("lenet5", "resnet18", "resattnet3d18")


@pytest.fixture(scope="module")
def losses(in_torch):
    """The losses of every network, by name."""
    jobs = [{"network": network, "dataset": dataset, **how} for network, dataset, how in TRAINED]
    return dict(zip((name for name, _, _ in TRAINED), in_torch("train", jobs), strict=True))


def test_pytorch_computes_what_numpy_computes_from_the_definitions(in_torch):
    errors = in_torch("kinds", CASES)
    wrong = [(case, error) for case, error in zip(CASES, errors, strict=True) if not error < 1e-9]
    assert wrong == []


def test_every_kind_is_compared():
    assert {kind for kind, _, _ in CASES} == set(KINDS)


@pytest.mark.parametrize("name", [name for name, _, _ in TRAINED])
def test_a_few_steps_on_its_data_give_finite_losses(losses, name):
    assert all(map(math.isfinite, losses[name]))
    assert len(set(losses[name])) > 1


@pytest.mark.parametrize("name", LEARNING)
def test_the_loss_falls_on_learnable_data(losses, name):
    first, last = losses[name][:4], losses[name][-4:]
    assert sum(last) < 0.85 * sum(first)
