"""When DDP's collectives are in flight: a communication hook that stamps the start and the end of each bucket."""

from __future__ import annotations

from typing import Any, List, Tuple

import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from steplab_worker.adapters.torch.stamps import elapsed, stamp


class BucketClock:
    """Stamps of the buckets of one step.

    DDP calls the hook when all gradients of a bucket are there, and a bucket's future is done when its all-reduce is;
    so the last call is also the end of this rank's backward computation. On a GPU both are events on the stream, for
    the calls themselves run ahead of it.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.stamps: List[Tuple[Any, Any]] = []  # start and end of each bucket

    def hook(self, state, bucket):  # DDP looks at annotations and would refuse those that are strings
        """Average a bucket as DDP does without a hook, and stamp it."""
        start = stamp(self.device)

        def ended(future):
            self.stamps.append((start, stamp(self.device)))
            return future.value()

        return default_hooks.allreduce_hook(None, bucket).then(ended)

    def take(self) -> Tuple[float, float]:
        """Seconds of the last step with a bucket in flight, and of those after the last gradient; forget them."""
        intervals = sorted(self._seconds())
        self.stamps = []
        if not intervals:
            return 0.0, 0.0
        computed = max(start for start, _ in intervals)
        return union_length(intervals), max(end for _, end in intervals) - computed

    def _seconds(self) -> List[Tuple[float, float]]:
        """Start and end of each bucket, from the first stamp on."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return [(elapsed(self.stamps[0][0], start), elapsed(self.stamps[0][0], end)) for start, end in self.stamps]


def union_length(intervals: List[Tuple[float, float]]) -> float:
    """How much of the line some intervals, sorted by their start, cover together."""
    total, reached = 0.0, float("-inf")
    for start, end in intervals:
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
