"""A rank sees the GPU that its placement gives it, and no other."""

from __future__ import annotations

import pytest

from steplab_worker.devices import choose, missing


@pytest.mark.parametrize(
    ("device", "before", "after"),
    [
        ("", {}, {}),
        ("", {"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("cpu", {}, {"CUDA_VISIBLE_DEVICES": ""}),
        ("cpu", {"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": ""}),
        ("cuda:1", {}, {"CUDA_VISIBLE_DEVICES": "1"}),
        ("cuda:1", {"CUDA_VISIBLE_DEVICES": "4,7"}, {"CUDA_VISIBLE_DEVICES": "7"}),
        ("cuda:2", {"CUDA_VISIBLE_DEVICES": "4,7"}, {"CUDA_VISIBLE_DEVICES": ""}),
    ],
)
def test_the_device_is_chosen_among_the_visible_ones(
    device: str, before: dict[str, str], after: dict[str, str]
) -> None:
    choose(device, before)
    assert before == after


def test_only_a_gpu_that_is_not_seen_is_missing() -> None:
    assert [missing(device, False) for device in ("", "cpu")] == ["", ""]
    assert missing("cuda:1", True) == ""
    assert missing("cuda:1", False).startswith("device = 'cuda' needs GPU 1 of its host")
