"""PyTorch on a GPU, played: native steps are stamped by events, and batches are read into pinned memory."""

from __future__ import annotations

from typing import Any


def test_native_steps_are_timed_by_events_and_waited_for_at_the_ends_only(ranks: Any) -> None:
    (proof,) = ranks.run("torch", {"proof": "torch_events"}, network="lenet5")
    assert proof["times"] == [0.25] * 5
    assert proof["waits"] == 2
    assert proof["pinned"] == 2 * 5  # samples and labels of each batch
