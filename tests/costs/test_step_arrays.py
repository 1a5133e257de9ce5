"""The arrays of a step one after the other: what they come to is what is counted, and what stays behind is told."""

import pytest

from steplab.costs.builtin import builtin
from steplab.costs.kept_arrays import KeptArrays
from steplab.costs.kernel_arrays import Moment, beside_output
from steplab.costs.memory import memory
from steplab.costs.step_arrays import _Steps

GPT = {"layers": "2", "width": "128", "heads": "4", "sequence": "128", "vocabulary": "256"}
BERT = {**GPT, "vocabulary": "50"}


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(("name", "options"), [("gpt2", GPT), ("bert_base", BERT), ("mlp", {})])
def test_the_most_that_is_held_is_the_counted_peak(name, options, recompute):
    workload = builtin(name, 16, options=options)
    steps = _Steps(workload, KeptArrays(workload, recompute), "sgd", 1)
    for _ in range(2):
        steps.run()
    # The count looks at one operation's gradients at a time; those of a residual wait beside it.
    assert steps.heap.most == pytest.approx(memory(workload, "sgd", recompute).peak_bytes, rel=0.1)
    assert not steps.gradients


def test_convolutions_have_their_channels_in_blocks_for_a_moment():
    few, whole = (beside_output(builtin(name, 2).operations[0], 4) for name in ("lenet5", "resnet18"))
    assert few == Moment((), (4 * 2 * 16 * 28 * 28,))  # 6 channels of 16; the image is taken as it is
    assert whole == Moment((), (4 * 2 * 64 * 112 * 112,))
    inner = next(op for op in builtin("resnet18", 2).operations if op.name == "s1b1_conv1")
    assert beside_output(inner, 4) == Moment((4 * 2 * 64 * 56 * 56,), (4 * 2 * 64 * 56 * 56,))


def test_after_a_step_parameters_state_and_batch_are_left():
    workload = builtin("lenet5", 16)
    steps = _Steps(workload, KeptArrays(workload), "adam", 1)
    steps.run()
    assert steps.heap.held == 3 * 4 * 61706 + 4 * 16 * 784


def test_arrays_that_have_pages_of_their_own_leave_nothing():
    small, large = (memory(builtin("gpt2", batch, options=GPT)) for batch in (16, 4096))
    assert small.beside.allocator_bytes / small.peak_bytes > 0.05
    assert 0 <= large.beside.allocator_bytes / large.peak_bytes < 0.01


def test_the_total_is_the_peak_and_what_is_beside_it():
    held = memory(builtin("lenet5", 256), "adam")
    assert held.total_bytes == held.peak_bytes + held.beside.kernel_bytes + held.beside.allocator_bytes
    assert held.beside.kernel_bytes > 0
    assert 0 < held.beside.allocator_low < held.beside.allocator_bytes < held.beside.allocator_high


def test_of_a_sharded_block_each_worker_keeps_a_part_of_the_gradients():
    """Whole ones would be counted as what kernels add, and the more the more workers there are."""
    workload = builtin("gpt2", 1, options={"sequence": "32"})
    alone, many = (memory(workload, "adam", shards=shards).beside.kernel_bytes for shards in (1, 64))
    assert many <= alone
