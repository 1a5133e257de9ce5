"""Batches through PyTorch's own `DataLoader`, whose workers are processes: `loader = "dataloader"`.

The samples of a batch and their order are those of our own loader, so the two can be compared. The worker processes die
with their rank, however it ends.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Optional

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from steplab_worker import adapter as base
from steplab_worker import limits
from steplab_worker.adapters.torch.named_samples import each, is_named, stacked
from steplab_worker.augment import AUGMENTATIONS, Augment
from steplab_worker.job import TrialJob
from steplab_worker.loader import Loader


class Divided(Sampler):
    """This rank's part of each global batch from an epoch on, without end: workers need not be started again."""

    def __init__(self, loader: Loader, epoch: int):
        self.loader, self.epoch = loader, epoch

    def __iter__(self) -> Iterator[List[int]]:
        return (part.tolist() for part in self.loader.parts(self.epoch))


class Augmented(Dataset):
    """Samples changed at random, by a generator of their own for each time that they are read."""

    def __init__(self, samples: Any, augment: Augment, seed: int):
        self.samples, self.augment, self.seed = samples, augment, seed

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        inputs, target = self.samples[index]
        # The seed of PyTorch's generator differs from worker to worker and from start to start of them.
        rng = np.random.default_rng([self.seed, index, int(torch.randint(1 << 31, ()))])
        return self.augment(np.asarray(inputs)[None], rng)[0], target


class DataLoaderSource(base.Source):
    """Batches of one rank from a `DataLoader`; `loader_workers` are processes, 0 reads in the rank itself."""

    def __init__(self, job: TrialJob, samples: Any, rank: int, workers: int, pinned: bool):
        self.job, self.pinned = job, pinned
        augment = AUGMENTATIONS[job.augment]
        self.samples = samples if augment is None else Augmented(samples, augment, job.seed)
        self.loader = Loader(samples, job.batch_size, rank, workers, job.seed)
        self.batches: Optional[Any] = None
        self.taken = 0

    def next(self) -> Any:
        """The next batch: samples and labels as tensors."""
        if self.batches is None:
            self._start(self.taken // self.loader.batches_per_epoch)
        self.taken += 1
        return tuple(next(self.batches))

    def begin(self, epoch: int) -> int:
        """Go to the start of an epoch; workers that are elsewhere are started again."""
        length = self.loader.batches_per_epoch
        if self.taken != epoch * length:
            self.close()
            self.taken = epoch * length
        return length

    def _start(self, epoch: int) -> None:
        processes = self.job.loader_workers
        loader = DataLoader(
            self.samples,
            batch_sampler=Divided(self.loader, epoch),
            num_workers=processes,
            prefetch_factor=self.job.prefetch if processes else None,
            pin_memory=self.pinned,
            multiprocessing_context="fork" if processes else None,
            worker_init_fn=_die_with_rank if processes else None,
            collate_fn=_named_batch if is_named(self.samples[0]) else None,
        )
        self.batches = iter(loader)

    def close(self) -> None:
        """End the worker processes and wait for them."""
        shut_down = getattr(self.batches, "_shutdown_workers", None)
        self.batches = None
        if shut_down is not None:
            shut_down()


def _named_batch(samples: List[Any]) -> Any:
    """Samples of arrays by name as a batch; PyTorch's own way takes lists of numbers apart."""
    return each(stacked(samples), torch.from_numpy), None


def _die_with_rank(worker: int) -> None:
    limits.die_with_parent()
