"""Batches from a data set: shuffled by seed, divided over the ranks, read ahead by background threads.

Threads and not processes: reading, decoding (Pillow) and copying (NumPy) release the interpreter lock, a batch does
not have to be sent from one process to another, and nothing can be left behind. benchmarks/loader.py measures it.
"""

from __future__ import annotations

import itertools
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Deque, Iterator, Optional, Tuple

import numpy as np

from steplab_worker.augment import Augment
from steplab_worker.data import DataError, Dataset

Batch = Tuple[np.ndarray, np.ndarray]
Prepare = Callable[[Batch], Any]


class Loader:
    """Endless full mini-batches of one rank: its parts of the global batches of all ranks.

    Every rank draws the same permutation for an epoch, cuts it into global batches and takes its own, disjoint part of
    each; so n ranks see together what one rank with the n-fold batch sees. With `background` > 0 that many threads read
    up to `prefetch` batches each ahead; the batches are the same, in the same order, whatever their number.
    `augment(samples, generator)` changes a batch after it was read, `prepare(batch)` makes of it what `next` gives
    (tensors in pinned memory, say); both happen where it is read.
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
        prepare: Optional[Prepare] = None,
    ) -> None:
        if not (batch_size >= 1 and 0 <= rank < workers and background >= 0 and prefetch >= 1):
            raise ValueError("a loader needs batch_size and prefetch >= 1, rank in 0..workers-1, background >= 0")
        self._dataset, self._batch_size, self._augment, self._prepare = dataset, batch_size, augment, prepare
        self._rank, self._workers, self._seed = rank, workers, seed
        shard = len(dataset) // workers
        self.batches_per_epoch = shard // batch_size
        if not self.batches_per_epoch:
            raise DataError(
                "%d samples over %d workers leave %d each, fewer than a batch of %d"
                % (len(dataset), workers, shard, batch_size)
            )
        self.epoch, self._closed = 0, False
        self._taken = self._planned = 0
        self._order_epoch, self._order = -1, np.empty(0, dtype=np.int64)
        self._depth = background * prefetch
        self._divided: Deque[Tuple[int, np.ndarray]] = deque()  # number and indices of batches nobody reads yet
        self._waiting: Deque["Future[Any]"] = deque()
        self._pool = ThreadPoolExecutor(background, "loader") if background else None

    def divide(self) -> None:
        """Divide as many global batches as the next call of `next` begins to read; none if that is done."""
        # One more than the depth while a batch is handed over, so that the threads never run dry.
        while len(self._waiting) + len(self._divided) <= self._depth:
            self._divided.append((self._planned, self._own_part(self._planned)))
            self._planned += 1

    def next(self) -> Any:
        """The next batch: samples and labels, or what `prepare` made of them; waits for it if it is not there yet."""
        if self._closed:
            raise RuntimeError("the loader is closed")
        self.epoch = self._taken // self.batches_per_epoch
        self._taken += 1
        self.divide()
        if self._pool is None:
            return self._read(*self._divided.popleft())
        while self._divided:
            self._waiting.append(self._pool.submit(self._read, *self._divided.popleft()))
        return self._waiting.popleft().result()

    def begin(self, epoch: int) -> None:
        """Go to the start of an epoch (0 is the first), as if all before it had been read."""
        if self._taken == epoch * self.batches_per_epoch:
            return
        for future in self._waiting:
            future.cancel()
        self._waiting.clear()
        self._divided.clear()
        self._taken = self._planned = epoch * self.batches_per_epoch

    def parts(self, epoch: int) -> Iterator[np.ndarray]:
        """The indices of this rank's batches from the start of an epoch on, without end; nothing is read."""
        return map(self._own_part, itertools.count(epoch * self.batches_per_epoch))

    def _own_part(self, number: int) -> np.ndarray:
        """The indices of this rank's part of a global batch."""
        epoch, batch = divmod(number, self.batches_per_epoch)
        if epoch != self._order_epoch:
            # The same for all ranks: only then are their parts disjoint.
            self._order = np.random.default_rng([self._seed, epoch]).permutation(len(self._dataset))
            self._order_epoch = epoch
        whole = self._order[batch * self._batch_size * self._workers :][: self._batch_size * self._workers]
        return whole.reshape(self._workers, self._batch_size)[self._rank].copy()

    def _read(self, number: int, indices: np.ndarray) -> Any:
        samples, labels = self._dataset.read(indices)
        if self._augment is not None:
            rng = np.random.default_rng([self._seed, self._rank, number])
            samples = self._augment(samples, rng)
        return (samples, labels) if self._prepare is None else self._prepare((samples, labels))

    def close(self) -> None:
        """Stop reading ahead and end the threads; closing twice is fine."""
        self._closed = True
        for future in self._waiting:
            future.cancel()
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
