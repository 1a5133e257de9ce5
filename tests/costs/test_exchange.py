"""What workers send each other, and what they hold when they divide parameters among them."""

import pytest

from steplab import inspect
from steplab import memory as held
from steplab.core.errors import InputError
from steplab.costs.builtin import builtin
from steplab.costs.exchange import block_parameters, step_exchange
from steplab.costs.memory import memory
from steplab.costs.network import cost

SMALL = {"layers": "2", "width": "24", "heads": "3", "sequence": "12", "vocabulary": "50"}
# By hand. A block has 12·d² weights in four dense layers, 9·d biases and 4·d of norms; outside are tokens, positions
# and the last norm.
BLOCK, OUTSIDE = 4 * (12 * 24**2 + 13 * 24), 4 * (50 * 24 + 12 * 24 + 2 * 24)


def sent(strategy, workers):
    workload = builtin("gpt2", 3, options=SMALL)
    return step_exchange(cost(workload), workload, strategy, workers)


def test_parameters_are_told_block_by_block():
    workload = builtin("gpt2", 3, options=SMALL)
    assert block_parameters(cost(workload), workload) == {"": OUTSIDE, "b1": BLOCK, "b2": BLOCK}


def test_blocks_are_gathered_twice_and_the_rest_once():
    exchange = sent("sharded", 4)
    assert exchange.all_gather_bytes == OUTSIDE + 2 * 2 * BLOCK
    assert exchange.reduce_scatter_bytes == OUTSIDE + 2 * BLOCK
    assert exchange.sent_bytes == (2 * OUTSIDE + 3 * 2 * BLOCK) * 3 / 4


def test_synchronous_workers_send_their_gradients_twice_but_for_their_own_share():
    assert sent("sync", 4).sent_bytes == 2 * (OUTSIDE + 2 * BLOCK) * 3 / 4
    assert sent("sync", 1).sent_bytes == sent("sharded", 1).sent_bytes == 0


@pytest.mark.parametrize("workers", [2, 8])
def test_workers_divide_what_is_learned_and_gather_two_blocks(workers):
    whole = memory(builtin("gpt2", 3, options=SMALL), "adam")
    part = memory(builtin("gpt2", 3, options=SMALL), "adam", shards=workers)
    for name in ("parameter_bytes", "gradient_bytes", "state_bytes"):
        assert getattr(part, name) * workers == pytest.approx(getattr(whole, name), abs=2 * workers)
    assert part.gathered_bytes == OUTSIDE + 2 * BLOCK
    assert part.activation_bytes == whole.activation_bytes


def test_sharding_pays_where_blocks_are_many():
    one, eight = (held("gpt2", optimizer="adam", strategy="sharded", workers=n).memory for n in (1, 8))
    assert one == held("gpt2", optimizer="adam").memory
    assert eight.peak_bytes < one.peak_bytes - 0.8 * one.state_bytes


def test_whole_gradients_that_are_exchanged_are_there_once_more():
    alone, together = (memory(builtin("lenet5", 8), exchanges=exchanges) for exchanges in (False, True))
    assert together.peak_bytes - alone.peak_bytes == together.bucket_bytes == alone.gradient_bytes


def test_the_document_has_the_exchange_of_several_workers():
    document = inspect("lenet5", strategy="sharded", workers=2).document()["exchange"]
    assert document["all_gather_bytes"] == document["reduce_scatter_bytes"] == document["sent_bytes"] == 4 * 61706
    assert "exchange" not in inspect("lenet5").document()


@pytest.mark.parametrize(("strategy", "workers"), [("ps-async", 2), ("sharded", 0)])
def test_what_is_not_counted_is_said(strategy, workers):
    with pytest.raises(InputError):
        held("lenet5", strategy=strategy, workers=workers)
