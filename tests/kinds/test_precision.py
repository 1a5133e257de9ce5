"""A precision that a framework does not have is refused before anything starts."""

from __future__ import annotations

import pytest

from steplab import kinds
from steplab.core.resolution import resolve
from steplab.core.trial import trial_id


@pytest.mark.parametrize(("framework", "title"), [("mxnet", "MXNet"), ("chainer", "Chainer")])
def test_frameworks_without_it_say_so(framework: str, title: str) -> None:
    resolved = resolve({"framework": framework, "precision": "bfloat16"})
    assert kinds.named("step").unsupported(resolved) == f"{title} has no precision 'bfloat16' here, only float32"


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
def test_the_others_take_it(framework: str) -> None:
    assert kinds.named("step").unsupported(resolve({"framework": framework, "precision": "bfloat16"})) == ""


def test_it_is_float32_unless_given_and_then_no_part_of_the_trial() -> None:
    config = {"framework": "torch", "network": "lenet5"}
    assert resolve(config).precision == "float32"
    assert trial_id(config, 0) != trial_id({**config, "precision": "float32"}, 0)  # as with every factor that is named


def test_float16_is_pytorchs_alone_and_needs_its_usual_step() -> None:
    def refused(framework: str, **config: str) -> str:
        return kinds.named("step").unsupported(resolve({"framework": framework, "precision": "float16", **config}))

    assert refused("torch") == ""  # the rank says whether it has a GPU
    assert refused("jax") == "JAX has no precision 'float16' here, only float32, bfloat16"
    assert "scale" in refused("torch", strategy="sharded", network="gpt2", dataset="tokens")
    assert "does not scale its loss" in refused("torch", step="module:own.py:step")
