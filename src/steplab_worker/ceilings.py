"""How fast this machine can compute and move bytes, seen through NumPy.

Every slot that was measured is a document of its own. Slots are interleaved: each round goes through all thread counts
and kernels, so that a disturbance of some seconds hits all of them alike. A framework's own kernels are in its
adapter's file.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import numpy as np

from steplab_worker import helper

REPETITION_S = 0.01  # a repetition lasts at least that long: a rate that is held, not a lucky call
Kernel = Tuple[Callable[[], Any], float]  # a call, and the FLOPs or bytes of one


class NumpyKernels:
    """Kernels of NumPy and its BLAS; the arrays of each thread are its own."""

    def __init__(self) -> None:
        self.threads, self.pool = 1, ThreadPoolExecutor(1)

    def about(self) -> str:
        """What the ceilings are seen through."""
        return "NumPy %s" % np.__version__

    def set_threads(self, threads: int) -> None:
        """Use so many threads from now on."""
        from threadpoolctl import threadpool_limits

        threadpool_limits(threads)
        self.pool.shutdown()
        self.threads, self.pool = threads, ThreadPoolExecutor(threads)

    def sgemm(self, n: int) -> Kernel:
        """A float32 matrix product, 2·n³ FLOPs."""
        a, b, c = (np.ones((n, n), np.float32) for _ in range(3))
        return lambda: np.matmul(a, b, out=c), 2.0 * n**3

    def triad(self, n: int) -> Kernel:
        """A = b + c over n elements; besides three arrays the lines of `a` are fetched before they are written."""
        part = max(n // self.threads, 1)
        arrays = [[np.ones(part, np.float32) for _ in range(3)] for _ in range(self.threads)]
        # Small arrays are gone through many times in one call, because a call costs more than they do.
        views = [[_again(array, max(1, 4000000 // part)) for array in three] for three in arrays]
        moved = 16.0 * sum(three[0].size for three in views)
        return lambda: list(self.pool.map(lambda three: np.add(three[1], three[2], out=three[0]), views)), moved

    def read(self, n: int) -> Optional[Kernel]:
        """NumPy has no read-only loop as fast as its additions."""
        return None


def _again(array: np.ndarray, times: int) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(array, (times, array.size), (0, 4))


def measure(kernels: Any, job: Dict[str, Any], say: Callable[[Dict[str, Any]], None]) -> None:
    """Run all slots of all rounds; say what each reached."""
    say({"about": kernels.about()})
    ready: Dict[Any, Optional[Kernel]] = {}
    for _ in range(job["rounds"]):
        for threads in job["threads"]:
            kernels.set_threads(threads)
            for name, level, n in _slots(job, threads):
                # Made once: filling arrays anew would take longer than measuring.
                if (name, n, threads) not in ready:
                    ready[name, n, threads] = getattr(kernels, name)(n)
                kernel = ready[name, n, threads]
                if kernel is not None:
                    rates = list(_rates(kernel, job["slot_s"]))
                    slot = {"threads": threads, "kernel": name, "level": level, "rates": rates}
                    say(dict(slot, cpu_s=time.process_time()))


def _slots(job: Dict[str, Any], threads: int) -> Iterator[Tuple[str, str, int]]:
    for n in job["sgemm"][str(threads)]:
        for kernel in job["products"]:
            yield kernel, "compute", n
    for level in job["levels"]:
        for kernel in level["kernels"]:
            yield kernel, level["name"], level["elements"][str(threads)]


def _rates(kernel: Kernel, seconds: float) -> Iterator[float]:
    """Rates of repetitions, each of as many calls as fill it; at least two, after a call that does not count."""
    call, work = kernel
    start = time.perf_counter()
    call()
    calls = max(1, int(REPETITION_S / max(time.perf_counter() - start, 1e-9)))
    end, done = time.perf_counter() + seconds, 0
    while done < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        yield work * calls / (time.perf_counter() - start)
        done += 1


def serve(kernels: Any) -> None:
    """Read the job, measure, say each slot as soon as it is measured."""
    helper.serve(lambda job, say: measure(kernels, job, say))


def main() -> None:
    """Measure through NumPy."""
    serve(NumpyKernels())
