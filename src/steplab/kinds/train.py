"""Trials of kind `train`: whole epochs, the accuracy after them, the time to a target accuracy.

A study says how long is trained; the director says from which checkpoint the ranks go on, when they save, and when the
training has reached its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from steplab.core.measurement import Section
from steplab.core.record import Epoch, Record
from steplab.core.resolution import Resolved, data_spec
from steplab.core.trial import Level
from steplab.kinds.base import Table, TrialKind
from steplab.kinds.director import Director, Findings, OutOfTurn, all_of
from steplab_worker.codec import fields
from steplab_worker.graph import Graph
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
)  # fmt: skip

WARMUP = 10  # iterations, where the study leaves them to us: after that many no framework was seen to get faster
STARTER = """\
[train]                              # with kind = "train" only
epochs = 10
target_accuracy = 0.95               # ends the training; without it all epochs are trained
every = 1                            # look at the accuracy after so many epochs
checkpoint_every = 1                 # save after so many epochs, to go on from when killed
"""
EPOCH = {
    "epoch": int,
    "seconds": float,
    "validation_s": float,
    "iterations": int,
    "loss": float,
    "train_accuracy": float,
    "validation_accuracy": float,
    "attempt": int,
}


class Train(Section):
    """[train]: how long a trial of kind train trains, when its accuracy is looked at and its state saved."""

    epochs: Annotated[int, Field(ge=1, le=100_000)] = 10
    target_accuracy: Annotated[int | float, Field(gt=0, le=1)] | None = None
    validation_samples: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    every: Annotated[int, Field(ge=1, le=100_000)] = 1
    checkpoint_every: Annotated[int, Field(ge=1, le=100_000)] = 1

    @field_validator("every")
    @classmethod
    def _soon_enough(cls, every: int, info: ValidationInfo) -> int:
        epochs = info.data.get("epochs", every)
        if every > epochs:
            raise ValueError(f"the accuracy would be looked at after the last of {epochs} epochs only")
        return every


@dataclass(frozen=True)
class TrainKind(TrialKind):
    """Trainings, from the first epoch to the last or to the target accuracy."""

    name = "train"
    summary = "accuracy, time to a target"
    ability = "train"
    validates = True
    fields = Train
    free = frozenset({"checkpoint_every"})
    starter = STARTER
    columns = (
        "epochs", "train_accuracy", "validation_accuracy", "best_validation_accuracy", "time_to_target_s", "train_s",
        "target_accuracy",
    )  # fmt: skip
    tables: ClassVar[Mapping[str, Table]] = {"epochs": Table(EPOCH, lambda record: record.epochs)}

    section: Train

    @classmethod
    def refused(cls, network: str, graph: Graph) -> str:
        """Only what classifies has an accuracy."""
        classifies = graph.loss != "reconstruction"
        return "" if classifies else f"{network} does not classify, and training trials look at the accuracy"

    @classmethod
    def row(cls, record: Record) -> dict[str, Any]:
        """What it learned and how long that took."""
        validated = [epoch for epoch in record.epochs if epoch.validation_accuracy is not None]
        accuracies = [_number(epoch.validation_accuracy) for epoch in validated]
        return {
            "epochs": len(record.epochs),
            "train_accuracy": _number(validated[-1].train_accuracy) if validated else math.nan,
            "validation_accuracy": accuracies[-1] if accuracies else math.nan,
            "best_validation_accuracy": max(accuracies, default=math.nan),
            "time_to_target_s": time_to_target_s(record.epochs, record.target_accuracy),
            "train_s": sum(epoch.seconds for epoch in record.epochs),
            "target_accuracy": _number(record.target_accuracy),
        }

    @property
    def deadlines(self) -> int:
        """A training's deadline is renewed by each epoch, and by each checkpoint."""
        return 2 * self.section.epochs + 1

    def iterations(self, resolved: Resolved) -> int:
        """All epochs, as if no target were reached."""
        batch = resolved.workers * resolved.batch_size
        return self.section.epochs * max(1, self._samples(resolved, None) // batch)

    def job_part(self, resolved: Resolved, samples: int | None, checkpoints: Path) -> dict[str, Level]:
        """What the ranks are told of their training."""
        plan = TrainingPlan(
            epochs=self.section.epochs,
            samples=self._samples(resolved, samples),
            validation_samples=self.section.validation_samples or 0,
            every=self.section.every,
            warmup=WARMUP if self.measure.warmup == "auto" else self.measure.warmup,
            folder=str(checkpoints.absolute()),
        )
        return asdict(plan)

    def _samples(self, resolved: Resolved, samples: int | None) -> int:
        """Samples of the training split, as the network takes them: those of the files, or what would be generated."""
        spec = data_spec(resolved)
        return (samples or self.data.samples or spec.generated) * spec.parts

    def director(self, resolved: Resolved, tell: Callable[[str], None]) -> Director:
        """Each epoch has as long as a trial of another kind."""
        return TrainingDirector(self.section, self.measure.timeout_s, tell)


def time_to_target_s(epochs: Sequence[Epoch], target: float | None) -> float:
    """Training seconds up to the first epoch whose validation accuracy is the target or above; NaN if none is.

    >>> epochs = [Epoch(epoch=e, seconds=2, validation_s=1, iterations=5, loss=1, train_accuracy=None,
    ...           validation_accuracy=a) for e, a in [(1, 0.5), (2, None), (3, 0.9)]]
    >>> time_to_target_s(epochs, 0.8)
    6.0
    """
    passed = 0.0
    for epoch in epochs:
        passed += epoch.seconds
        if target is not None and epoch.validation_accuracy is not None and epoch.validation_accuracy >= target:
            return passed
    return math.nan


def _number(value: float | None) -> float:
    return math.nan if value is None else value


@dataclass
class TrainingDirector:
    """Answers the ranks of one training; `renew_s` is how long each of its epochs may take."""

    train: Train
    renew_s: float
    tell: Callable[[str], None] = lambda news: None
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

    def findings(self) -> Findings:
        """The epochs, and what the ranks had to say of their checkpoints."""
        return Findings(tuple(self.notes), tuple(self.epochs), self.train.target_accuracy)

    def _note(self, notes: Iterable[str]) -> None:
        self.notes = list(dict.fromkeys([*self.notes, *notes]))

    def _begin(self, asked: Mapping[int, Begin]) -> dict[int, Message]:
        """All ranks go on from the newest checkpoint that each of them can read."""
        self._note(note for begin in asked.values() for note in begin.notes)
        common = min((begin.epochs for begin in asked.values()), key=len)
        self.epochs = [Epoch.model_validate(fields(row)) for row in common]
        if common:
            self.tell(f"epoch {len(common)} was done before")
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
        self.tell(f"epoch {epoch.epoch} done")
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
        seen = [epoch.validation_accuracy for epoch in self.epochs if epoch.validation_accuracy is not None]
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


KIND = TrainKind
