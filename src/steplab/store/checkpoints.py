"""The checkpoints of trials: kept while a trial is not done, so that it can go on from them."""

from __future__ import annotations

import contextlib

from steplab.core.errors import InputError, RecordError
from steplab.store import records
from steplab.store.paths import TRIAL, StudyFolder


def forget(folder: StudyFolder, trial: str) -> None:
    """Remove the checkpoints of a trial that is done."""
    with contextlib.suppress(OSError, InputError), folder.opened(folder.checkpoints) as checkpoints:
        checkpoints.remove_tree(trial)


def sweep(folder: StudyFolder) -> None:
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
