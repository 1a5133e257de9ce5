"""Recomputed blocks: what PyTorch still holds to the byte, what it computes again to the FLOP, and the peak."""

import pytest

from steplab.core import catalogue
from steplab.costs.builtin import builtin
from steplab.costs.memory import memory
from steplab.costs.network import cost
from steplab.costs.operation import from_graph
from steplab.costs.recompute import recomputed, recomputing

SMALL = {"layers": 2, "width": 24, "heads": 3}
TEXT = {**SMALL, "sequence": 12, "vocabulary": 50}
CASES = [
    ("gpt2", TEXT, (1024,), 3),
    ("gpt2", {**TEXT, "dropout": 0.1}, (1024,), 3),
    ("bert_base", TEXT, (512,), 3),
    ("vit_tiny", SMALL, (3, 32, 32), 3),
    ("resnet18", {}, (3, 32, 32), 2),
    ("resnet50", {}, (3, 32, 32), 2),
    ("efficientnet_b0", {}, (3, 32, 32), 2),
]


@pytest.fixture(scope="module")
def in_pytorch(in_torch):
    """Bytes and FLOPs of each case, without and with recomputation."""
    found = in_torch("recomputed", [(*case, again) for case in CASES for again in (False, True)])
    return list(zip(found[::2], found[1::2], strict=True))


def workload_of(case):
    name, options, shape, batch = CASES[case]
    return from_graph(catalogue.build_network(name, options, shape, 10), batch)


@pytest.mark.parametrize("case", range(len(CASES)), ids=[name for name, *_ in CASES])
def test_what_is_held_is_what_pytorch_holds(in_pytorch, case):
    held = [memory(workload_of(case), recompute=again).activation_bytes for again in (False, True)]
    assert held == [found["bytes"] for found in in_pytorch[case]]


@pytest.mark.parametrize("case", range(len(CASES)), ids=[name for name, *_ in CASES])
def test_what_is_computed_again_is_what_pytorch_computes_again(in_pytorch, case):
    plain, again = cost(workload_of(case)).totals, recomputing(workload_of(case)).totals
    assert again.forward_flops == plain.forward_flops
    # The difference, because PyTorch's counter is wrong about the backward pass of grouped convolutions.
    counted = in_pytorch[case][1]["flops"] - in_pytorch[case][0]["flops"]
    assert again.backward_matmul_flops - plain.backward_matmul_flops == counted > 0


def test_nothing_runs_again_that_backward_does_not_need():
    again = recomputed(builtin("gpt2", 1))
    assert {"b1_qkv", "b1_attention", "b1_act", "b12_dense1"} <= again
    assert not {"b1_dense2", "b1_add2", "tokens", "logits", "norm"} & again


@pytest.mark.parametrize("name", ["gpt2", "resnet50"])
def test_the_peak_falls_to_the_inputs_of_all_blocks_and_the_arrays_of_one(name):
    plain, again = (memory(builtin(name, 8), recompute=again) for again in (False, True))
    assert again.activation_bytes < plain.activation_bytes and again.peak_bytes < plain.peak_bytes
    assert again.peak_bytes > again.parameter_bytes + again.activation_bytes
    assert sum(layer.activation_bytes for layer in again.layers) == again.activation_bytes


def test_a_network_without_blocks_is_the_same():
    assert memory(builtin("lenet5", 8), recompute=True).peak_bytes == memory(builtin("lenet5", 8)).peak_bytes
