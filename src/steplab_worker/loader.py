"""Batches from a data set: shuffled by seed, shared out by rank, read ahead by background threads.

Threads and not processes: reading, decoding (Pillow) and copying (NumPy) release the interpreter lock, a batch does
not have to be sent from one process to another, and nothing can be left behind. benchmarks/loader.py measures it.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Deque, Optional, Tuple

import numpy as np

from steplab_worker.augment import Augment
from steplab_worker.data import DataError, Dataset

Batch = Tuple[np.ndarray, np.ndarray]


class Loader:
    """Endless full batches of one rank's shard of a data set.

    Every rank draws the same permutation for an epoch and takes its own, disjoint part of it. With `background` > 0
    that many threads read up to `prefetch` batches each ahead; the batches are the same, in the same order, whatever
    their number. `augment(samples, generator)` changes a batch after it was read.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        rank: int = 0,
        workers: int = 1,
        seed: int = 0,
        background: int = 0,
        prefetch: int = 2,
        augment: Optional[Augment] = None,
    ) -> None:
        if not (batch_size >= 1 and 0 <= rank < workers and background >= 0 and prefetch >= 1):
            raise ValueError("a loader needs batch_size and prefetch >= 1, rank in 0..workers-1, background >= 0")
        self._dataset, self._batch_size, self._augment = dataset, batch_size, augment
        self._rank, self._workers, self._seed = rank, workers, seed
        self._shard = len(dataset) // workers
        self.batches_per_epoch = self._shard // batch_size
        if not self.batches_per_epoch:
            raise DataError(
                "%d samples over %d workers leave %d each, fewer than a batch of %d"
                % (len(dataset), workers, self._shard, batch_size)
            )
        self.epoch, self._closed = 0, False
        self._taken = self._planned = 0
        self._order_epoch, self._order = -1, np.empty(0, dtype=np.int64)
        self._depth = background * prefetch
        self._waiting: Deque["Future[Batch]"] = deque()
        self._pool = ThreadPoolExecutor(background, "loader") if background else None

    def next(self) -> Batch:
        """The next batch: samples and labels; waits for it if it is not there yet."""
        if self._closed:
            raise RuntimeError("the loader is closed")
        number, self._taken = self._taken, self._taken + 1
        self.epoch = number // self.batches_per_epoch
        if self._pool is None:
            return self._read(number, self._plan())
        # One more than the depth while this batch is handed over, so that the threads never run dry.
        while len(self._waiting) <= self._depth:
            number, indices = self._planned, self._plan()
            self._waiting.append(self._pool.submit(self._read, number, indices))
        return self._waiting.popleft().result()

    def begin(self, epoch: int) -> None:
        """Go to the start of an epoch (0 is the first), as if all before it had been read."""
        if self._taken == epoch * self.batches_per_epoch:
            return
        for one in self._waiting:
            one.cancel()
        self._waiting.clear()
        self._taken = self._planned = epoch * self.batches_per_epoch

    def _plan(self) -> np.ndarray:
        epoch, batch = divmod(self._planned, self.batches_per_epoch)
        if epoch != self._order_epoch:
            # The same for all ranks: only then are their parts disjoint.
            order = np.random.default_rng([self._seed, epoch]).permutation(len(self._dataset))
            self._order = order[self._rank * self._shard : (self._rank + 1) * self._shard]
            self._order_epoch = epoch
        self._planned += 1
        return self._order[batch * self._batch_size : (batch + 1) * self._batch_size]

    def _read(self, number: int, indices: np.ndarray) -> Batch:
        samples, labels = self._dataset.read(indices)
        if self._augment is not None:
            rng = np.random.default_rng([self._seed, self._rank, number])
            samples = self._augment(samples, rng)
        return samples, labels

    def close(self) -> None:
        """Stop reading ahead and end the threads; closing twice is fine."""
        self._closed = True
        for one in self._waiting:
            one.cancel()
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
