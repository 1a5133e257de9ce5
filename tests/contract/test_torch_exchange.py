"""What phased mode exchanges in PyTorch is what DDP exchanges: the same buckets, and the buffers."""

from __future__ import annotations

from typing import Any

import pytest

MLP = {"network": "mlp", "network_options": {"units": 512, "hidden_layers": 6}}  # 6.7 MiB of gradients


@pytest.mark.parametrize(("size_mb", "number"), [(0.0, 2), (25.0, 1), (2.0, 3)])
def test_buckets_are_those_of_ddp(ranks: Any, size_mb: float, number: int) -> None:
    for found in ranks.run("torch", {"proof": "torch_buckets"}, workers=2, options={"bucket_mb": size_mb}, **MLP):
        assert found["phased"] == found["native"]
        assert len(found["native"]) == number


def test_a_study_that_sets_no_size_gets_ddp_s_small_first_bucket(ranks: Any) -> None:
    for found in ranks.run("torch", {"proof": "torch_buckets"}, workers=2, **MLP):
        assert 2**20 <= found["native"][0] < sum(found["native"][1:])


def test_phased_ranks_share_the_buffers_of_rank_0(ranks: Any) -> None:
    first, second = ranks.run("torch", {"proof": "torch_buffers"}, workers=2, network="resnet18", shape=(3, 16, 16))
    assert first["buffers"]
    assert first["buffers"] == second["buffers"]
