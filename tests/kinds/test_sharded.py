"""Sharded training is refused before anything starts where it cannot be done."""

from __future__ import annotations

import pytest

from steplab import kinds
from steplab.core.resolution import resolve
from steplab.core.trial import Level

SHARDED: dict[str, Level] = {"network": "gpt2", "dataset": "tokens", "strategy": "sharded", "workers": 2}


def refused(kind: str = "step", **config: Level) -> str:
    return kinds.named(kind).unsupported(resolve({**SHARDED, **config}))


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_frameworks_that_can_take_it_for_steps_only(framework: str) -> None:
    assert refused(framework=framework) == ""
    assert refused(framework=framework, network="lenet5", dataset="mnist", recompute=False) == ""
    assert "only its part of the parameters" in refused("train", framework=framework)


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet", "chainer"])
def test_the_others_name_their_strategies(framework: str) -> None:
    assert "has no strategy 'sharded' here, only sync" in refused(framework=framework)


def test_what_pytorch_cannot_shard_here_says_so() -> None:
    assert "run eagerly" in refused(framework="torch", compile=True)
    own = refused(framework="torch", network="module:net:make", dataset="mnist")
    assert own == "which blocks a network of one's own has is not known, so its parameters are not sharded"
