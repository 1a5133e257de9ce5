"""Directs a training: from which checkpoint it goes on, when it saves, when it has reached its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steplab.core.record import Epoch
from steplab.runner.data.datasets import DataSource
from steplab.runner.directing.director import OutOfTurn, all_of
from steplab.study.resolution import Resolved
from steplab.study.sections import Study, Train
from steplab_worker import data
from steplab_worker.codec import fields
from steplab_worker.job import TrainingPlan
from steplab_worker.messages import (
    Begin,
    EpochEnd,
    EpochRow,
    EpochTaken,
    Measurement,
    Message,
    Proceed,
    Result,
    Resume,
    Saved,
)

WARMUP = 10  # iterations, where the study leaves them to us: after that many no framework was seen to get faster


def training_plan(study: Study, resolved: Resolved, source: DataSource | None, folder: Path) -> TrainingPlan:
    """What the ranks are told of their training."""
    train, measure, spec = study.train, study.measure, data.spec(resolved.dataset)
    generated = spec.generated if study.data.samples is None else study.data.samples
    return TrainingPlan(
        epochs=train.epochs,
        samples=source.samples if source else generated,
        validation_samples=train.validation_samples or 0,
        every=train.every,
        warmup=WARMUP if measure.warmup == "auto" else measure.warmup,
        folder=str(folder.absolute()),
    )


@dataclass
class TrainingDirector:
    """Answers the ranks of one training; `renew_s` is how long each of its epochs may take."""

    train: Train
    renew_s: float
    on_epoch: Callable[[int], None] = lambda epoch: None
    epochs: list[Epoch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    due: type[Message] = Begin  # what the ranks may say next; after the end nothing but their results

    def answers(self, asked: Mapping[int, Message]) -> dict[int, Message]:
        """What each rank is told after all have asked."""
        all_of(asked, self.due)
        if self.due is Begin:
            return self._begin(all_of(asked, Begin))
        if self.due is Saved:
            return self._saved(all_of(asked, Saved))
        return self._epoch(all_of(asked, EpochEnd))

    def check(self, measurements: Mapping[int, Measurement]) -> None:
        """The training is at its end, and every iteration of its epochs has a time."""
        iterations = sum(epoch.iterations for epoch in self.epochs)
        for rank, measurement in measurements.items():
            if self.due is not Result:
                raise OutOfTurn(rank, f"sent Result where {self.due.__name__} was due")
            if len(measurement.modes["native"].warmup) != iterations:
                raise OutOfTurn(rank, f"sent a Result without the {iterations} iterations of its epochs")

    def _note(self, notes: Iterable[str]) -> None:
        self.notes = list(dict.fromkeys([*self.notes, *notes]))

    def _begin(self, asked: Mapping[int, Begin]) -> dict[int, Message]:
        """All ranks go on from the newest checkpoint that each of them can read."""
        self._note(note for begin in asked.values() for note in begin.notes)
        common = min((begin.epochs for begin in asked.values()), key=len)
        self.epochs = [Epoch.model_validate(fields(row)) for row in common]
        self.on_epoch(len(self.epochs))
        self.due = EpochEnd if self._go_on() else Result
        return {rank: Resume(len(common), self._go_on()) for rank in asked}

    def _saved(self, asked: Mapping[int, Saved]) -> dict[int, Message]:
        self._note(note for saved in asked.values() for note in saved.notes)
        self.due = EpochEnd
        return {rank: Proceed() for rank in asked}

    def _epoch(self, asked: Mapping[int, EpochEnd]) -> dict[int, Message]:
        self._expect_alike(asked)
        times = [ended.t_iter for ended in asked.values()]
        epoch = _epoch(asked, times)
        self.epochs.append(epoch)
        self.on_epoch(epoch.epoch)
        go_on = self._go_on()
        # A training that is at its end has a record in a moment.
        save = go_on and epoch.epoch % self.train.checkpoint_every == 0
        self.due = Saved if save else EpochEnd if go_on else Result
        row = EpochRow(**epoch.model_dump())
        # Only rank 0 writes checkpoints, which hold the times of all.
        return {rank: EpochTaken(row, go_on, save, times if rank == 0 else []) for rank in asked}

    def _expect_alike(self, asked: Mapping[int, EpochEnd]) -> None:
        """The ranks are at the same epoch, the next one, and it has as many iterations for each."""
        for rank, ended in asked.items():
            if ended.epoch != len(self.epochs) + 1:
                raise OutOfTurn(rank, f"sent epoch {ended.epoch} where {len(self.epochs) + 1} was due")
            if len(ended.t_iter) != len(asked[0].t_iter):
                raise OutOfTurn(rank, f"sent {len(ended.t_iter)} times where rank 0 sent {len(asked[0].t_iter)}")

    def _go_on(self) -> bool:
        return len(self.epochs) < self.train.epochs and not self._reached()

    def _reached(self) -> bool:
        target = self.train.target_accuracy
        seen = [one.validation_accuracy for one in self.epochs if one.validation_accuracy is not None]
        return target is not None and any(accuracy >= target for accuracy in seen)


def _epoch(asked: Mapping[int, EpochEnd], times: Sequence[Sequence[float]]) -> Epoch:
    """The epoch of all ranks; its accuracies are those that rank 0 looked at."""
    first = asked[0]
    seen = first.accuracies
    return Epoch(
        epoch=first.epoch,
        seconds=math.fsum(map(math.fsum, times)) / len(times),
        validation_s=seen.validation_s if seen else 0.0,
        iterations=len(first.t_iter),
        loss=_finite(sum(ended.loss for ended in asked.values()) / len(asked)),
        train_accuracy=seen.training if seen else None,
        validation_accuracy=seen.validation if seen else None,
        attempt=first.attempt,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
