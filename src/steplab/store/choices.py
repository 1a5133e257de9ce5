"""What an adaptive design chose, batch by batch, kept in the study's folder for laboratories elsewhere and for people.

The records are the truth: each tells its batch and why it was chosen. These files say it before the trials have run.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from pydantic import BaseModel, ConfigDict, Field

from steplab.core.errors import RecordError
from steplab.core.parsing import parsing
from steplab.core.record import Choice
from steplab.store.paths import StudyFolder

MAX_BYTES = 10_000_000
SUFFIX = ".json"
Plain = str | int | float | None


class ChosenBatch(BaseModel):
    """A batch: its trials, each with the reason; without any, the study ended there, under these terms."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    batch: int = Field(ge=0)
    why: str
    uncertainty: float | None = None
    trials: dict[str, str] = {}
    terms: dict[str, Plain] = {}  # aim and budget under which it was chosen

    def ended(self, terms: Mapping[str, Plain]) -> bool:
        """Whether a study of these terms ended there; with a larger budget it goes on."""
        return not self.trials and self.terms == dict(terms)


def write_batch(folder: StudyFolder, batch: ChosenBatch) -> None:
    """Keep a batch; the same laboratory or another may have written it before."""
    content = orjson.dumps(batch.model_dump(), option=orjson.OPT_INDENT_2)
    with folder.ensured(folder.choices) as place:
        place.write(f"{batch.batch:05d}{SUFFIX}", content + b"\n")


def read_batches(folder: StudyFolder) -> list[ChosenBatch]:
    """All batches in their order; what is no batch is told."""
    if not folder.has(folder.choices):
        return []
    with folder.opened(folder.choices) as place:
        names = sorted(entry.name for entry in place.entries() if entry.name.endswith(SUFFIX))
    return [_read(folder, name) for name in names if name.removesuffix(SUFFIX).isdigit()]


def _read(folder: StudyFolder, name: str) -> ChosenBatch:
    path = folder.choices / name
    hint = "remove it: it is made again from the records"
    with parsing("is not a batch of an adaptive design", str(path), RecordError, hint):
        return ChosenBatch.model_validate(orjson.loads(folder.read(path, MAX_BYTES)))


def choice_of(folder: StudyFolder, trial: str) -> Choice | None:
    """Why a trial was chosen; the last time, if it was more than once."""
    for batch in reversed(read_batches(folder)):
        if trial in batch.trials:
            return Choice(batch=batch.batch, why=batch.trials[trial])
    return None
