"""Velox infers what PyTorch infers, from the same weights, in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from steplab import kinds
from steplab.core import catalogue
from steplab.core.errors import EnvironmentFault
from steplab.core.resolution import resolve
from steplab.runner.environments.registry import find
from steplab_worker import networks

SOURCE = Path(__file__).parents[3] / "src"
SCRIPT = Path(__file__).with_name("outputs.py")
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


def environment(framework: str) -> Path:
    try:
        return find(framework).python
    except EnvironmentFault as fault:
        pytest.fail(f"these tests need the environment: {fault}", pytrace=False)


def in_environment(framework: str, *arguments: str, jobs: str = "") -> None:
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(environment(framework)), *arguments]
    done = subprocess.run(command, input=jobs, text=True, capture_output=True, env=variables, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def inferred(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, np.ndarray]]:
    """The outputs of all jobs in both frameworks."""
    jobs = json.dumps({name: {"seed": 1, "formulation": "auto", **job} for name, job in JOBS.items()})
    answers = {}
    for framework in ("torch", "velox"):
        path = tmp_path_factory.mktemp(framework) / "answer.npz"
        in_environment(framework, str(SCRIPT), framework, str(path), jobs=jobs)
        with np.load(path) as given:
            answers[framework] = dict(given)
    return answers


@pytest.mark.framework("velox")
@pytest.mark.parametrize("name", JOBS)
def test_outputs_are_those_of_pytorch(inferred: dict[str, dict[str, np.ndarray]], name: str) -> None:
    expected, given = inferred["torch"][name], inferred["velox"][name]
    assert given.shape == expected.shape
    assert expected.std(0).max() > 1e-7 or len(expected) == 1, "all samples give the same: nothing is compared"
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-5)


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
