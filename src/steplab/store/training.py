"""What a training trial learned and how long it took: its columns of `trials`, and the table `epochs`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from steplab.core.errors import InputError, RecordError
from steplab.core.record import Epoch, Record
from steplab.store import records
from steplab.store.paths import TRIAL, StudyFolder

TRIALS = (
    "epochs", "train_accuracy", "validation_accuracy", "best_validation_accuracy", "time_to_target_s", "train_s",
)  # fmt: skip
COLUMNS = (
    ("epoch", pa.int32()),
    ("seconds", pa.float64()),
    ("validation_s", pa.float64()),
    ("iterations", pa.int32()),
    ("loss", pa.float64()),
    ("train_accuracy", pa.float64()),
    ("validation_accuracy", pa.float64()),
    ("attempt", pa.int32()),
)


def training_row(record: Record) -> dict[str, Any]:
    """The columns of `trials` about training; NaN for trials of another kind."""
    if record.kind != "train":
        return dict.fromkeys(TRIALS, math.nan)
    validated = [one for one in record.epochs if one.validation_accuracy is not None]
    accuracies = [_number(one.validation_accuracy) for one in validated]
    return {
        "epochs": len(record.epochs),
        "train_accuracy": _number(validated[-1].train_accuracy) if validated else math.nan,
        "validation_accuracy": accuracies[-1] if accuracies else math.nan,
        "best_validation_accuracy": max(accuracies, default=math.nan),
        "time_to_target_s": time_to_target_s(record.epochs, record.target_accuracy),
        "train_s": sum(one.seconds for one in record.epochs),
    }


def time_to_target_s(epochs: Sequence[Epoch], target: float | None) -> float:
    """Training seconds up to the first epoch whose validation accuracy is the target or above; NaN if none is.

    >>> epochs = [Epoch(epoch=e, seconds=2, validation_s=1, iterations=5, loss=1, train_accuracy=None,
    ...           validation_accuracy=a) for e, a in [(1, 0.5), (2, None), (3, 0.9)]]
    >>> time_to_target_s(epochs, 0.8)
    6.0
    """
    passed = 0.0
    for one in epochs:
        passed += one.seconds
        if target is not None and one.validation_accuracy is not None and one.validation_accuracy >= target:
            return passed
    return math.nan


def epochs_table(good: Sequence[Record]) -> pa.Table:
    """Every epoch of every training trial."""
    rows = [(record.trial, one) for record in good for one in record.epochs]
    columns = {name: pa.array([getattr(one, name) for _, one in rows], kind) for name, kind in COLUMNS}
    return pa.table({"trial": pa.array([trial for trial, _ in rows], pa.string()), **columns})


def forget_checkpoints(folder: StudyFolder, trial: str) -> None:
    """Remove the checkpoints of a trial that is done."""
    with contextlib.suppress(OSError, InputError), folder.opened(folder.checkpoints) as checkpoints:
        checkpoints.remove_tree(trial)


def sweep_checkpoints(folder: StudyFolder) -> None:
    """Remove checkpoints that a laboratory killed just after its record left; failed trials keep theirs."""
    with contextlib.suppress(OSError, InputError), folder.opened(folder.checkpoints) as checkpoints:
        for entry in list(checkpoints.entries()):
            if TRIAL.fullmatch(entry.name) and entry.is_directory and _ended_well(folder, entry.name):
                checkpoints.remove_tree(entry.name)


def _ended_well(folder: StudyFolder, trial: str) -> bool:
    try:
        return records.read_record(folder, trial).status == "ok"
    except RecordError:
        return False  # there is none, or it is told where records are read


def _number(value: float | None) -> float:
    return math.nan if value is None else value
