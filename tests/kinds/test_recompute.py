"""Recomputation is refused before anything starts where there is nothing that could do it."""

from __future__ import annotations

import pytest

from steplab import kinds
from steplab.core.resolution import resolve
from steplab.core.trial import Level

GPT2: dict[str, Level] = {"network": "gpt2", "dataset": "tokens", "recompute": True}


def refused(kind: str = "step", **config: Level) -> str:
    return kinds.named(kind).unsupported(resolve({**GPT2, **config}))


@pytest.mark.parametrize(("framework", "title"), [("tensorflow", "TensorFlow"), ("mxnet", "MXNet")])
def test_frameworks_without_it_name_those_that_have_it(framework: str, title: str) -> None:
    assert refused(framework=framework) == f"{title} recomputes no blocks here, only JAX and PyTorch do"


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_the_others_take_it(framework: str) -> None:
    assert refused(framework=framework) == "" and refused("train", framework=framework) == ""


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"network": "lenet5", "dataset": "mnist"}, "lenet5 has no blocks that could be recomputed"),
        ({"network": "module:net:make", "dataset": "mnist"}, "which blocks a network of one's own has is not known"),
        ({"compile": True}, "PyTorch: torch.compile chooses by itself what it computes again in backward"),
    ],
    ids=["no blocks", "own network", "compiled"],
)
def test_what_has_no_blocks_to_recompute_says_so(config: dict[str, Level], reason: str) -> None:
    assert refused(framework="torch", **config).startswith(reason)


def test_an_inference_has_nothing_to_recompute() -> None:
    assert "nothing to recompute" in refused("infer", framework="torch")
