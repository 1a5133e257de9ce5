"""Native steps are stamped where the device can note it, and nobody waits for the device in between."""

from __future__ import annotations

from typing import Any

import pytest

from steplab_worker import loop, networks
from steplab_worker.adapters import synthetic
from steplab_worker.job import TrialJob


class Queue(synthetic.Session):
    """A device that runs behind: its stamps are events, whose times are known once it was waited for."""

    waits = 0

    def synchronize(self) -> None:
        self.waits += 1

    def stamp(self) -> Any:
        return {"event": self.now}

    def seconds(self, stamps: list[Any]) -> list[float]:
        self.synchronize()
        return super().seconds([event["event"] for event in stamps])


@pytest.fixture
def queue() -> Queue:
    options = {name: said["default"] for name, said in synthetic.DECLARATION["factors"].items()}
    job = TrialJob(
        trial="t", replicate=0, kind="step", config={}, network="mlp", network_options={}, input_shape=(1, 28, 28),
        classes=10, dataset="mnist", data_folder="", batch_size=4, accumulate=1, strategy="sync", optimizer="sgd",
        learning_rate=0.01, loader_workers=0, prefetch=2, options={**options, "compute_s": 3.0, "io_s": 0.5},
        phases=True, memory_limit_bytes=0, seed=1,
    )  # fmt: skip
    return Queue(job, networks.build("mlp"), 0, 1)


def test_a_native_block_waits_for_the_device_at_its_ends_only(queue: Queue) -> None:
    times = loop.NativeBlock(queue, queue.source())(50)["t_iter"]
    assert queue.waits == 2
    assert times == pytest.approx([3.0 + 4 * 1e-4 + 4 * 0.5 + 1e-4] * 50)


def test_without_events_every_step_is_waited_for(queue: Queue) -> None:
    before, after = super(Queue, queue).stamp(), super(Queue, queue).stamp()
    assert queue.waits == 2
    assert super(Queue, queue).seconds([before, after]) == [0.0]
