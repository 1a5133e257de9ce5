"""Messages of gradients, as frameworks make them."""

from __future__ import annotations

import pytest

from steplab.core import catalogue
from steplab.planning.network.buckets import MEBIBYTE, Gradient, buckets, buffer_bytes, gradients
from steplab_worker.graph import Builder


def net(batch_norm: bool = False) -> Builder:
    builder = Builder("x", (1, 8, 8))
    builder.add("flatten", "flatten")
    builder.dense("first", 4)
    builder.dense("second", 2)
    return builder


def test_gradients_come_last_layer_first_and_when_their_layer_is_done() -> None:
    made = gradients(net().graph(), {"flatten": 1.0, "first": 2.0, "second": 1.0})
    assert [(gradient.layer, gradient.bytes) for gradient in made] == [
        ("second", 4 * 2), ("second", 4 * 8), ("first", 4 * 4), ("first", 4 * 256),
    ]  # fmt: skip
    assert [gradient.ready for gradient in made] == pytest.approx([0.25, 0.25, 0.75, 0.75])


def test_every_framework_sends_all_of_a_networks_gradients() -> None:
    graph = catalogue.build_network("lenet5")
    made = gradients(graph, {})
    for name in catalogue.framework_names():
        habit = catalogue.framework(name).exchange
        assert sum(bucket.bytes for bucket in buckets(made, habit)) == 4 * graph.parameters


def test_ddp_has_a_small_first_bucket_unless_it_is_told_a_size() -> None:
    habit = catalogue.framework("torch").exchange
    made = [Gradient("x", MEBIBYTE / 2, at / 100) for at in range(1, 101)]
    assert [bucket.bytes / MEBIBYTE for bucket in buckets(made, habit)] == [1, 25, 24]
    assert [bucket.bytes / MEBIBYTE for bucket in buckets(made, habit, 10.0)] == [10] * 5
    assert buckets(made, habit)[0].ready == 0.02


def test_arrays_go_one_by_one_and_a_whole_waits_for_all() -> None:
    made = [Gradient("b", 10.0, 0.5), Gradient("a", 20.0, 1.0)]
    arrays, whole = (buckets(made, catalogue.framework(name).exchange) for name in ("mxnet", "tensorflow"))
    assert [(bucket.bytes, bucket.ready) for bucket in arrays] == [(10.0, 0.5), (20.0, 1.0)]
    assert [(bucket.bytes, bucket.ready) for bucket in whole] == [(30.0, 1.0)]
    # JAX's one operation begins when all gradients are there.
    assert [bucket.ready for bucket in buckets(made, catalogue.framework("jax").exchange)] == [1.0, 1.0]


def test_running_means_are_buffers() -> None:
    builder = net()
    assert buffer_bytes(builder.graph()) == 0.0
    other = Builder("x", (3, 8, 8))
    other.conv_norm("conv", 5, 3)
    assert buffer_bytes(other.graph()) == 4 * 2 * 5
