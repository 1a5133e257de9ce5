"""How noisy this machine is just now: a fixed piece of work, timed again and again."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from steplab.runner.instruments.machine import busy_cpu_s

SIZE = 192


@dataclass(frozen=True)
class Quietness:
    """What a second of fixed work showed; shares, not per cent."""

    spread: float  # robust coefficient of variation of the repetitions
    worst: float  # the slowest one in twenty against the median
    others: float  # share of the machine's CPU that other programs took meanwhile
    repetitions: int

    @property
    def verdict(self) -> str:
        """One word on it, and what to do."""
        if self.others > 0.15:
            return f"disturbed: other programs take {self.others:.0%} of the machine; stop them before measuring"
        if self.spread > 0.10:
            return "noisy: compare only within one run, with 5 or more replicates"
        return "usable" if self.spread > 0.03 else "quiet"


def listen(seconds: float = 1.0) -> Quietness:
    """Time a small matrix product again and again for a while."""
    rng = np.random.default_rng(0)
    a, b = rng.random((SIZE, SIZE), dtype=np.float32), rng.random((SIZE, SIZE), dtype=np.float32)
    busy, own, began = busy_cpu_s(), time.process_time(), time.perf_counter()
    times: list[float] = []
    while time.perf_counter() - began < seconds or len(times) < 20:
        start = time.perf_counter()
        for _ in range(4):
            a @ b
        times.append(time.perf_counter() - start)
    elapsed = time.perf_counter() - began
    others = (busy_cpu_s() - busy - (time.process_time() - own)) / (elapsed * (os.cpu_count() or 1))
    return _judge(np.asarray(times[3:]), others)


def _judge(times: np.ndarray, others: float) -> Quietness:
    median = float(np.median(times))
    spread = 1.4826 * float(np.median(np.abs(times - median))) / median
    worst = float(np.quantile(times, 0.95)) / median - 1.0
    return Quietness(spread, worst, min(max(others, 0.0), 1.0), len(times))
