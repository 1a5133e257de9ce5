"""Velox infers what PyTorch infers, from the same weights, in its own environment."""

from __future__ import annotations

import pytest
from inferring import Outputs, assert_alike, in_environment, outputs

from steplab import kinds
from steplab.core import catalogue
from steplab.core.resolution import resolve
from steplab_worker import networks

IMAGE, DIGIT = (3, 32, 32), (1, 28, 28)
RESIDUAL = {"batch_norm": True, "residual": True, "padding": "same", "filters": 4}
# Of many seeds the single ReLU before the last layer of cnn9 lets nothing through; of these it does.
JOBS = {
    "mlp": {"network": "mlp", "shape": DIGIT, "batch": 3},
    "lenet5": {"network": "lenet5", "shape": DIGIT, "batch": 3},
    "lenet5-max": {"network": "lenet5", "shape": DIGIT, "batch": 2, "options": {"pool": "max", "activation": "relu"}},
    "cnn9": {"network": "cnn9", "shape": IMAGE, "batch": 2, "seed": 4},
    "cnn9-residual": {"network": "cnn9", "shape": (3, 12, 12), "batch": 2, "options": RESIDUAL},
    "resnet18": {"network": "resnet18", "shape": IMAGE, "batch": 1},
    "resnet50-narrow": {"network": "resnet50", "shape": IMAGE, "batch": 1, "options": {"filters": 4}},
    "efficientnet_b0": {"network": "efficientnet_b0", "shape": IMAGE, "batch": 1},
    "autoencoder": {"network": "autoencoder", "shape": DIGIT, "batch": 2},
    "pieces": {"network": "pieces", "shape": (4, 9, 8), "batch": 3},
    "volume": {"network": "pieces", "shape": (2, 9, 8, 7), "batch": 2},
    "columns": {"network": "lenet5", "shape": DIGIT, "batch": 2, "formulation": "columns"},
    "arrays": {"network": "pieces", "shape": (4, 9, 8), "batch": 2, "formulation": "arrays"},
    "in-parts": {"network": "lenet5", "shape": DIGIT, "batch": 7, "operand_bytes": 250_000},
    "batch-after-batch": {"network": "lenet5", "shape": DIGIT, "batch": 2, "batches": 3},
}


@pytest.fixture(scope="module")
def inferred(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outputs]:
    """The outputs of all jobs in both frameworks."""
    jobs = {name: {"formulation": "auto", **job} for name, job in JOBS.items()}
    return outputs(("torch", "velox"), jobs, tmp_path_factory.mktemp("outputs"))


@pytest.mark.framework("velox")
@pytest.mark.parametrize("name", JOBS)
def test_outputs_are_those_of_pytorch(inferred: dict[str, Outputs], name: str) -> None:
    assert_alike(inferred["velox"][name], inferred["torch"][name])


@pytest.mark.framework("velox")
def test_examples_in_the_plans_are_right() -> None:
    code = "import doctest, os, sys; from steplab_worker.adapters.velox import plans as m; r = doctest.testmod(m)"
    in_environment("velox", "-c", code + "; os._exit(r.failed or not r.attempted)")


def test_training_is_refused_before_anything_is_started() -> None:
    assert "only infer" in kinds.named("step").unsupported(resolve({"framework": "velox", "network": "lenet5"}))


def test_all_networks_but_those_with_attention_can_be_put_as_plans() -> None:
    known = set(catalogue.framework("velox").layers or ())
    missing = {}
    for name in networks.names():
        module = networks.module(name)
        options = {key: option.default for key, option in module.OPTIONS.items()}
        graph = networks.build(name, options, module.INPUT, module.CLASSES)
        missing[name] = {layer.kind for layer in graph.layers} - known
    transformers = {"gpt2", "bert_base", "vit_b16", "vit_tiny"}
    assert {name for name, kinds in missing.items() if kinds} == {"resattnet3d18", *transformers}
    assert missing["resattnet3d18"] == {"attention"}
    assert all("self_attention" in missing[name] for name in transformers)
