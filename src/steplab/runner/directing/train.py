"""Directs a training: from which checkpoint it goes on, when it saves, when it has reached its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steplab.core.record import Epoch
from steplab.runner.data.datasets import DataSource
from steplab.runner.ranks.channel import Document
from steplab.study.resolution import Resolved
from steplab.study.sections import Study, Train
from steplab_worker import data
from steplab_worker.job import TrainingPlan

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
    tell: Callable[[str], None] = lambda news: None
    epochs: list[Epoch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def answers(self, said: Mapping[int, Document]) -> dict[int, Document]:
        """What each rank is told after all have spoken."""
        self._note(said)
        if said[0]["say"] == "begin":
            return self._begin(said)
        if said[0]["say"] == "saved":
            return {rank: {} for rank in said}
        return self._epoch(said)

    def _note(self, said: Mapping[int, Document]) -> None:
        told = [note for one in said.values() for note in one.get("notes", ())]
        self.notes = list(dict.fromkeys([*self.notes, *told]))

    def _begin(self, said: Mapping[int, Document]) -> dict[int, Document]:
        """All ranks go on from the newest checkpoint that each of them can read."""
        common = min((one["epochs"] for one in said.values()), key=len)
        self.epochs = [Epoch.model_validate(row) for row in common]
        if common:
            self.tell(f"epoch {len(common)} was done before")
        return {rank: {"epoch": len(common), "go_on": self._go_on()} for rank in said}

    def _epoch(self, said: Mapping[int, Document]) -> dict[int, Document]:
        times = [said[rank]["t_iter"] for rank in sorted(said)]
        made = Epoch(
            epoch=said[0]["epoch"],
            seconds=math.fsum(map(math.fsum, times)) / len(times),
            validation_s=said[0].get("validation_s", 0.0),
            iterations=len(times[0]),
            loss=_finite(math.fsum(one["loss"] for one in said.values()) / len(said)),
            train_accuracy=said[0].get("train_accuracy"),
            validation_accuracy=said[0].get("validation_accuracy"),
            attempt=said[0]["attempt"],
        )
        self.epochs.append(made)
        self.tell(f"epoch {made.epoch} done")
        go_on = self._go_on()
        # A training that is at its end has a record in a moment.
        save = go_on and made.epoch % self.train.checkpoint_every == 0
        answer = {"go_on": go_on, "save": save, "epoch": made.model_dump()}
        # Only rank 0 writes checkpoints, which hold the times of all.
        return {rank: answer | ({"t_iter": times} if rank == 0 else {}) for rank in said}

    def _go_on(self) -> bool:
        return len(self.epochs) < self.train.epochs and not self._reached()

    def _reached(self) -> bool:
        target = self.train.target_accuracy
        seen = [one.validation_accuracy for one in self.epochs if one.validation_accuracy is not None]
        return target is not None and any(accuracy >= target for accuracy in seen)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
