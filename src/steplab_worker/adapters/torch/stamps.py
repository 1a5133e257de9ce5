"""Moments on the device of a PyTorch rank: clock reads on a CPU, events in the stream of a GPU.

An event is noted by the device itself when it gets there, so nobody waits for it while steps are queued.
"""

from __future__ import annotations

import time
from typing import Any

import torch


def stamp(device: torch.device) -> Any:
    """The moment at which the device has done what it was told so far."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def elapsed(before: Any, after: Any) -> float:
    """Seconds between two stamps of one device, which must have reached both."""
    return after - before if isinstance(before, float) else before.elapsed_time(after) / 1e3
