"""Trials of kind `train`: whole epochs, a look at the accuracy after them, and checkpoints to go on from.

The laboratory says after each epoch whether to save a checkpoint and whether to go on, so all ranks agree. Times come
from the session's stamps as in `loop`, at both ends of each iteration; the losses are read between iterations. An epoch
takes every sample of the rank's shard once, as far as they fill batches and whole accumulations; its order, and what is
left out, depends on the seed and the epoch alone.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple, Type

import numpy as np

from steplab_worker import data
from steplab_worker.adapter import Session, Source, Unsupported
from steplab_worker.checkpoints import Checkpoint, Checkpoints, identity
from steplab_worker.graph import UNTOLD
from steplab_worker.job import TrainingPlan, TrialJob
from steplab_worker.messages import (
    Accuracies,
    Begin,
    EpochEnd,
    EpochRow,
    EpochTaken,
    M,
    Measurement,
    Message,
    ModeTimes,
    Proceed,
    Resume,
    Saved,
)

Ask = Callable[[Message, Type[M]], M]
Predict = Callable[[np.ndarray], np.ndarray]
ALL = 0


def run(job: TrialJob, session: Session, ask: Ask, rank: int) -> Measurement:
    """Train as the laboratory directs; the raw times of every iteration and the last epoch's loss."""
    session.enter("native")
    source = session.source()
    plan = TrainingPlan.of(job)
    shelf = Checkpoints(plan.folder, identity(job), rank)
    try:
        training = _Training(job, plan, session, source, shelf)
        go_on = training.begin(ask)
        while go_on:
            go_on = training.epoch(ask)
        return Measurement({"native": training.mode()}, training.loss)
    finally:
        shelf.close()
        source.close()


class Examination:
    """The same samples of a split each time: all of them, or a draw that no trial's seed changes."""

    def __init__(self, job: TrialJob, split: str, samples: int):
        self.job, self.split, self.samples = job, split, samples
        self.dataset: Optional[data.Dataset] = None  # opened from files, unless it is given

    def accuracy(self, predict: Predict) -> float:
        """The share of samples, or of a text's tokens, whose largest output is that of their label."""
        dataset = self.dataset
        if dataset is None:
            dataset = data.open_split(self.job.data_folder, self.job.dataset, self.split, self.job.input_shape)
        indices = drawn(len(dataset), self.samples)
        self.samples = len(indices)
        counts = [self._right(dataset, part, predict) for part in _parts(indices, self.job.batch_size)]
        right, told = map(sum, zip(*counts))
        return right / told

    def _right(self, dataset: data.Dataset, indices: np.ndarray, predict: Predict) -> Tuple[int, int]:
        """How many labels are predicted, and how many there are: one a sample, or one a position that is told."""
        samples, labels = dataset.read(indices)
        # A last batch is filled up: compiled programs know one shape.
        filled = np.resize(samples, (self.job.batch_size, *samples.shape[1:]))
        right = predict(filled)[: len(labels)].argmax(axis=-1) == labels
        return int(np.sum(right)), int(np.sum(labels != UNTOLD))


def drawn(held: int, wanted: int) -> np.ndarray:
    """The indices of that many of the samples that a split holds, in order; all if 0 or more are wanted.

    >>> drawn(5, 0).tolist(), len(drawn(100, 7))
    ([0, 1, 2, 3, 4], 7)
    """
    if wanted == ALL or wanted >= held:
        return np.arange(held)
    return np.sort(np.random.default_rng(0).permutation(held)[:wanted])


def _parts(indices: np.ndarray, length: int) -> List[np.ndarray]:
    return [indices[start : start + length] for start in range(0, len(indices), length)]


class _Training:
    """One rank's training, from the start or from a checkpoint."""

    def __init__(self, job: TrialJob, plan: TrainingPlan, session: Session, source: Source, shelf: Checkpoints):
        self.job, self.plan, self.session, self.source, self.shelf = job, plan, session, source, shelf
        self.rank = shelf.rank
        self.rows: List[EpochRow] = []
        self.attempt = 0
        self.times: List[List[float]] = []  # of all ranks in rank 0, of this one elsewhere
        self.warmup: List[bool] = []
        self.since_start = 0
        self.loss = float("nan")

    def begin(self, ask: Ask) -> bool:
        """Go on from the newest checkpoint that all ranks can read, or start afresh; whether there is more to do."""
        like = self.session.state()
        checkpoint, notes = self.shelf.newest(like)
        epochs = checkpoint.rows if checkpoint is not None else []
        answer = ask(Begin(epochs, notes), Resume)
        if answer.epoch != len(epochs):
            checkpoint = self.shelf.load(answer.epoch, like) if answer.epoch else None
        if checkpoint is not None:
            self._restore(checkpoint)
        return answer.go_on

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.session.restore(checkpoint.state)
        self.rows, self.attempt = checkpoint.rows, checkpoint.attempt + 1
        self.times = checkpoint.times.tolist() if self.rank == 0 else [checkpoint.times[self.rank].tolist()]
        self.warmup = checkpoint.warmup.tolist()
        self.loss = _number(checkpoint.rows[-1].loss)

    def epoch(self, ask: Ask) -> bool:
        """One epoch; whether the laboratory wants another."""
        number = len(self.rows) + 1
        times, losses = self._iterate(self._begin(number))
        self.loss = float(np.mean(losses))
        looked = self.rank == 0 and (number % self.plan.every == 0 or number == self.plan.epochs)
        accuracies = self._accuracies() if looked else None
        answer = ask(EpochEnd(number, self.attempt, times, self.loss, accuracies), EpochTaken)
        self._remember(answer.row, answer.t_iter if self.rank == 0 else [times])
        if answer.save:
            # All ranks wait here for the one that writes, so that it is not in anybody's next iteration.
            ask(Saved(self._save() if self.rank == 0 else []), Proceed)
        return answer.go_on

    def _begin(self, number: int) -> int:
        """To the start of an epoch; how many iterations it has."""
        batches, k = self.source.begin(number - 1), self.job.accumulate
        if batches < k:
            raise Unsupported("an epoch of %d batches has no whole accumulation of %d" % (batches, k))
        sequence = np.random.SeedSequence([self.job.seed, number, self.rank])
        self.session.reseed(int(sequence.generate_state(1)[0]) >> 1)
        return batches // k * k

    def _iterate(self, iterations: int) -> Tuple[List[float], List[float]]:
        session, source, k = self.session, self.source, self.job.accumulate
        stamps: List[Any] = []
        losses: List[Any] = []
        session.synchronize()
        for done in range(1, iterations + 1):
            stamps.append(session.stamp())
            session.step(source.next(), done % k == 0)
            stamps.append(session.stamp())
            losses.append(session.pending_loss())
        return session.seconds(stamps)[::2], [float(loss) for loss in losses]

    def _accuracies(self) -> Accuracies:
        """Accuracies after the epoch: of the validation samples, timed, and of as many training samples."""
        clock, plan = self.session.clock, self.plan
        before = clock()
        looked = Examination(self.job, "test", plan.validation_samples)
        validation = self.session.examine(looked)
        seconds = clock() - before
        training = self.session.examine(Examination(self.job, "train", looked.samples))
        return Accuracies(seconds, validation, training)

    def _remember(self, row: EpochRow, times: List[List[float]]) -> None:
        self.rows = [*self.rows, row]
        self.times = [before + now for before, now in zip(self.times or [[] for _ in times], times)]
        counted = -(-self.plan.warmup // self.job.accumulate) * self.job.accumulate - self.since_start
        self.warmup += [at < counted for at in range(len(times[0]))]
        self.since_start += len(times[0])

    def _save(self) -> List[str]:
        """Write a checkpoint; one that cannot be written ends no training, but is told."""
        checkpoint = Checkpoint(
            self.rows, self.attempt, np.array(self.times), np.array(self.warmup, dtype=bool), self.session.state()
        )
        try:
            self.shelf.save(checkpoint)
        except OSError as error:
            return ["no checkpoint after epoch %d (%s)" % (checkpoint.epoch, error.strerror)]
        return []

    def mode(self) -> ModeTimes:
        """This rank's iterations; at least the last ones count as measured."""
        warmup = list(self.warmup)
        if all(warmup):
            warmup[-self.job.accumulate :] = [False] * self.job.accumulate
        return ModeTimes({"t_iter": self.times[0]}, warmup)


def _number(value: Optional[float]) -> float:
    return float("nan") if value is None else float(value)
