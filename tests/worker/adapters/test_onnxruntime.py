"""ONNX Runtime infers what PyTorch infers, from the same weights, and runs as it is told."""

from __future__ import annotations

import pytest
from inferring import Outputs, assert_alike, in_environment, outputs

from steplab import kinds
from steplab.core import catalogue
from steplab.core.resolution import resolve

IMAGE, PIECES = (3, 12, 12), (4, 9, 8)
TINY = {"layers": 1, "width": 24, "heads": 3}
PATCHES = {**TINY, "patch": 4}
RESIDUAL = {"batch_norm": True, "residual": True, "padding": "same", "filters": 4}
# With normalisation that does something, which the contract's initial weights have not.
JOBS = {
    "residual": {"network": "cnn9", "shape": IMAGE, "batch": 2, "options": RESIDUAL},
    "as-written": {"network": "cnn9", "shape": IMAGE, "batch": 2, "options": RESIDUAL, "optimization": "none"},
    "pieces": {"network": "pieces", "shape": PIECES, "batch": 3},
    "volume": {"network": "pieces", "shape": (2, 9, 8, 7), "batch": 2},
    "tokens": {"network": "gpt2", "shape": (6,), "batch": 2, "options": {**TINY, "sequence": 6, "vocabulary": 20}},
    "patches": {"network": "vit_tiny", "shape": (3, 8, 8), "batch": 2, "options": PATCHES},
    "batch-after-batch": {"network": "vit_tiny", "shape": (3, 8, 8), "batch": 2, "options": PATCHES, "batches": 3},
}
SETTINGS = """
from steplab_worker.adapters.onnxruntime import engine, layers
from steplab_worker import networks, weights
graph = networks.build("mlp")
model, arrays = layers.export(graph, weights.initial_weights(graph, 1))
settings = engine.Engine(model, 3, "basic", arrays).session.get_session_options()
print(settings.intra_op_num_threads, settings.inter_op_num_threads, settings.graph_optimization_level.name, len(model))
"""


@pytest.fixture(scope="module")
def inferred(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outputs]:
    """The outputs of all jobs in both frameworks."""
    return outputs(("torch", "onnxruntime"), JOBS, tmp_path_factory.mktemp("outputs"))


@pytest.mark.framework("onnxruntime")
@pytest.mark.parametrize("name", JOBS)
def test_outputs_are_those_of_pytorch(inferred: dict[str, Outputs], name: str) -> None:
    assert_alike(inferred["onnxruntime"][name], inferred["torch"][name])


@pytest.mark.framework("onnxruntime")
def test_threads_and_optimisation_are_those_asked_for_and_weights_stay_outside_of_the_model() -> None:
    threads, others, level, written = in_environment("onnxruntime", "-c", SETTINGS).split()
    assert (threads, others, level) == ("3", "1", "ORT_ENABLE_BASIC")
    assert int(written) < 10_000, "of 2 MB of weights"


@pytest.mark.parametrize("kind", ["step", "train"])
def test_training_is_refused_before_anything_is_started(kind: str) -> None:
    told = kinds.named(kind).unsupported(resolve({"framework": "onnxruntime", "network": "lenet5"}))
    assert told == f"ONNX Runtime has no trials of kind {kind!r} here, only infer"


@pytest.mark.parametrize(
    ("factor", "level", "reason"),
    [("device", "cuda", "computes on CPUs only"), ("precision", "bfloat16", "no precision 'bfloat16' here")],
)
def test_what_it_cannot_do_is_said_before_anything_is_started(factor: str, level: str, reason: str) -> None:
    config = {"framework": "onnxruntime", "network": "lenet5", factor: level}
    assert reason in kinds.named("infer").unsupported(resolve(config))


def test_every_network_can_be_exported() -> None:
    refused = {
        name: kinds.named("infer").unsupported(resolve({"framework": "onnxruntime", "network": name, "dataset": data}))
        for name in catalogue.network_names()
        for data in [{"gpt2": "tokens", "bert_base": "wordpieces"}.get(name, "cifar10")]
    }
    assert {name: why for name, why in refused.items() if why} == {}
