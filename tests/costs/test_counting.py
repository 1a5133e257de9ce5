"""Counts of single layers against counts by hand. 1 multiply-add = 2 FLOPs."""

import pytest

from steplab.costs.network import cost
from steplab.costs.operation import Operation, Weight, Workload, from_graph
from steplab_worker.graph import Builder


def layers(net, batch=1):
    """The costs of a built network's layers, by name."""
    return {layer.name: layer for layer in cost(from_graph(net.graph(), batch)).layers}


def test_convolution_by_hand():
    net = Builder("test", (3, 32, 32))
    net.conv("first", 16, 3)
    net.conv("second", 8, 3)
    made = layers(net, batch=2)
    first, second = made["first"].totals, made["second"].totals
    assert first.forward_matmul_flops == 2 * 2 * (16 * 30 * 30) * (3 * 3 * 3)
    assert first.forward_flops == first.forward_matmul_flops + 2 * 16 * 30 * 30
    assert second.forward_matmul_flops == 2 * 2 * (8 * 28 * 28) * (16 * 3 * 3)


def test_the_first_layer_computes_no_gradient_of_its_input():
    net = Builder("test", (3, 32, 32))
    net.conv("first", 16, 3)
    net.conv("second", 8, 3)
    made = layers(net)
    assert made["first"].totals.backward_matmul_flops == made["first"].totals.forward_matmul_flops
    assert made["second"].totals.backward_matmul_flops == 2 * made["second"].totals.forward_matmul_flops


def test_nothing_learnable_before_it_means_no_backward_work():
    net = Builder("test", (3, 8, 8))
    net.add("max_pool", "pool", kernel=2)
    net.activation("act", "tanh")
    net.add("flatten", "flatten")
    net.dense("dense", 4)
    made = layers(net)
    assert made["pool"].totals.backward_flops == made["act"].totals.backward_flops == 0
    assert made["pool"].totals.backward_bytes == made["act"].totals.backward_bytes == 0
    assert made["dense"].totals.backward_matmul_flops == 2 * 48 * 4


def test_groups_divide_the_work():
    whole, grouped = Builder("a", (8, 10, 10)), Builder("b", (8, 10, 10))
    whole.conv("conv", 8, 3)
    grouped.conv("conv", 8, 3, groups=8)
    by_hand = 2 * 8 * 8 * 8 * 9
    assert layers(grouped)["conv"].totals.forward_matmul_flops == by_hand
    assert layers(whole)["conv"].totals.forward_matmul_flops == 8 * by_hand


def test_attention_by_hand():
    net = Builder("test", (8, 5))
    query, key, value = (net.conv(name, n, 1, inputs="input") for name, n in (("q", 4), ("k", 4), ("v", 6)))
    net.add("attention", "attention", [query, key, value], heads=2)
    totals = layers(net, batch=3)["attention"].totals
    scores = 3 * 2 * 5 * 5
    assert totals.forward_matmul_flops == 2 * scores * (4 // 2) + 2 * scores * (6 // 2)
    assert totals.backward_matmul_flops == 2 * totals.forward_matmul_flops
    assert totals.forward_flops == totals.forward_matmul_flops + 6 * scores


def test_pytorchs_counter_does_not_see_fused_attention(in_torch):
    """On the CPU the fused operator is not in the counter's table and counts as nothing; unfused, the hand is right."""
    channels, positions, heads, batch = 16, 10, 2, 3
    job = {"channels": channels, "positions": positions, "heads": heads, "batch": batch}
    said = in_torch("flops", {"networks": [], "attention": job})["attention"]
    forward = 2 * (2 * batch * heads * positions**2 * (channels // heads))
    assert said["plain"] == [forward, 3 * forward]
    assert said["fused"] == [0, 0]


def test_bytes_of_a_dense_layer_by_hand():
    net = Builder("test", (10,))
    net.dense("one", 20)
    net.dense("two", 5)
    totals = layers(net, batch=4)["two"].totals
    assert totals.forward_bytes_read == 4 * (4 * 20 + 20 * 5 + 5)
    assert totals.forward_bytes_written == 4 * (4 * 5)
    assert totals.backward_bytes_read == 4 * (4 * 5 + 4 * 20 + 20 * 5)
    assert totals.backward_bytes_written == 4 * (20 * 5 + 5 + 4 * 20)
    assert totals.intensity == totals.forward_flops / totals.forward_bytes
    assert totals.activation_bytes == 4 * 4 * 5


def test_gradients_that_meet_are_added_up():
    net = Builder("test", (6,))
    first = net.dense("first", 6)
    left, right = net.activation("left", "relu", first), net.activation("right", "relu", first)
    net.add("add", "sum", [left, right])
    alone = Builder("test", (6,))
    alone.dense("first", 6)
    alone.activation("left", "relu")
    more = layers(net)["first"].totals.backward_flops - layers(alone)["first"].totals.backward_flops
    assert more == 6


@pytest.mark.parametrize(
    ("kind", "options", "forward"),
    [
        ("max_pool", {"kernel": 2}, 2 * 4 * 4 * 3),
        ("avg_pool", {"kernel": 2}, 2 * 4 * 4 * 4),
        ("global_avg_pool", {}, 2 * 8 * 8),
        ("adaptive_avg_pool", {"outputs": 3}, 2 * (3 + 4 + 3) ** 2),
        ("batch_norm", {}, 8 * 2 * 8 * 8),
        ("activation", {"function": "relu"}, 2 * 8 * 8),
        ("activation", {"function": "silu"}, 5 * 2 * 8 * 8),
        ("dropout", {"rate": 0.1}, 2 * 8 * 8),
        ("scale", {}, 2 * 8 * 8),
        ("upsample", {"factor": 2}, 0),
        ("flatten", {}, 0),
    ],
)
def test_other_layers_by_hand(kind, options, forward):
    net = Builder("test", (2, 8, 8))
    net.add(kind, "layer", **options)
    assert layers(net)["layer"].totals.forward_flops == forward


def test_views_move_nothing_and_copies_do():
    net = Builder("test", (2, 8, 8))
    net.add("concat", "twice", ["input", "input"])
    net.add("flatten", "flatten")
    made = layers(net)
    assert made["flatten"].totals.forward_bytes == 0
    assert made["flatten"].totals.intensity is None
    assert made["twice"].totals.forward_bytes == 4 * (256 + 256)


def test_an_unknown_kind_has_no_cost_instead_of_none():
    strange = Operation("odd", "wavelet", ("input",), ((1, 4),), (1, 4), {}, (Weight("weight", "odd.w", (7,)),))
    made = cost(Workload("mine", 1, (4,), (strange,)))
    assert made.layers[0].totals is None
    assert [layer.name for layer in made.unknown] == ["odd"]
    assert made.parameters == 7
