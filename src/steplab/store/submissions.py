"""The ledger of what was submitted to Slurm: plain files in the study's folder, each written once, whole or not at all.

<id>.json            what was to be submitted; written before Slurm is asked
<id>.job             the number that Slurm gave the job
<id>.left            the last word of the laboratory inside, if it left in good order
<id>.end             how the job ended, once its lost trials are noted
<id>.log             what the job printed
<trial>.<id>.lost    a trial that a job took down with it, and why
cancelled            somebody ended the study's jobs

A laboratory that is killed between two of them is found out by what is missing: nothing here is ever changed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steplab.core.errors import InputError
from steplab.core.trial import Status
from steplab.store.paths import StudyFolder

ID = re.compile(r"[0-9a-f]{10}")
MOST_BYTES = 10_000_000
LOG_BYTES = 4000
CANCELLED = "cancelled"
_LOST = re.compile(r"([0-9a-f]{16})\.([0-9a-f]{10})\.lost")


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class Shape(_Document):
    """What an allocation must have for a trial: equal ones share their allocations."""

    nodes: Annotated[int, Field(ge=1)]
    ranks_per_node: Annotated[int, Field(ge=1)]
    cpus_per_rank: Annotated[int, Field(ge=1)]
    gpus_per_node: Annotated[int, Field(ge=0)] = 0

    def __str__(self) -> str:
        gpus = f"g{self.gpus_per_node}" if self.gpus_per_node else ""
        return f"n{self.nodes}r{self.ranks_per_node}c{self.cpus_per_rank}{gpus}"


class Submission(_Document):
    """A job that was to be submitted."""

    id: Annotated[str, Field(pattern=f"^{ID.pattern}$")]
    shape: Shape
    created: float  # seconds since 1970
    trials: list[str] = []  # the only ones for it; empty: all of the shape


class JobNumber(_Document):
    """What Slurm calls a job."""

    job: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]


class LastWord(_Document):
    """Why a laboratory left its allocation, and the trial that it had to leave unfinished."""

    why: str  # done, limit, signal, fault
    text: str = ""
    trial: str = ""
    records: int = 0


class JobEnd(_Document):
    """How a job ended."""

    state: str  # as Slurm says it; empty if nobody knows
    reason: str
    at: float = 0.0


class Loss(_Document):
    """A trial that a job took down with it."""

    status: Status
    reason: str
    at: float  # seconds since 1970


D = TypeVar("D", bound=_Document)


@dataclass(frozen=True)
class Ledger:
    """The submissions of one study's folder."""

    folder: StudyFolder

    def submissions(self) -> list[Submission]:
        """All of them, in the order in which they were made."""
        names = (name.removesuffix(".json") for name in self._names() if name.endswith(".json"))
        every = [self._read(name, "json", Submission) for name in names if ID.fullmatch(name)]
        return sorted((entry for entry in every if entry), key=lambda entry: (entry.created, entry.id))

    def submission(self, name: str) -> Submission | None:
        """The submission of that id."""
        return self._read(name, "json", Submission)

    def open(self, submission: Submission) -> bool:
        """Note what is about to be submitted; False if the id is taken."""
        return self._write(f"{submission.id}.json", submission)

    def number(self, name: str) -> str:
        """What Slurm calls a submission's job; empty if that is not known."""
        document = self._read(name, "job", JobNumber)
        return document.job if document else ""

    def note_number(self, name: str, job: str) -> None:
        """Note what Slurm calls a submission's job."""
        self._write(f"{name}.job", JobNumber(job=job))

    def last_word(self, name: str) -> LastWord | None:
        """What the laboratory inside said when it left; None if it said nothing."""
        return self._read(name, "left", LastWord)

    def note_last_word(self, name: str, word: LastWord) -> None:
        """Note why a laboratory leaves."""
        self._write(f"{name}.left", word)

    def end(self, name: str) -> JobEnd | None:
        """How a submission's job ended; None as long as that is not settled."""
        return self._read(name, "end", JobEnd)

    def note_end(self, name: str, end: JobEnd) -> None:
        """Note that a job has ended and that its lost trials are noted."""
        self._write(f"{name}.end", end)

    def losses(self) -> dict[str, list[Loss]]:
        """The trials that jobs took down with them, each with its losses in the order in which they were noted."""
        lost: dict[str, list[Loss]] = {}
        for trial, name in (match.groups() for name in self._names() if (match := _LOST.fullmatch(name))):
            loss = self._read(f"{trial}.{name}", "lost", Loss)
            if loss:
                lost.setdefault(trial, []).append(loss)
        return {trial: sorted(losses, key=lambda loss: loss.at) for trial, losses in lost.items()}

    def note_loss(self, trial: str, name: str, loss: Loss) -> None:
        """Note that a job took a trial down with it."""
        self._write(f"{trial}.{name}.lost", loss)

    def forget_losses(self, trials: Collection[str]) -> None:
        """Let trials begin anew, as if no job had taken them down."""
        for name in self._names():
            match = _LOST.fullmatch(name)
            if match and match[1] in trials:
                self._remove(name)

    @property
    def cancelled(self) -> bool:
        """Whether somebody has ended the study's jobs since it was run last."""
        return self.folder.has(self.folder.slurm / CANCELLED)

    def cancel(self) -> None:
        """Note that the study's jobs are to end."""
        with self.folder.ensured(self.folder.slurm) as place:
            place.write_first(CANCELLED, b"")

    def go_on(self) -> None:
        """Take that back."""
        self._remove(CANCELLED)

    def log(self, name: str) -> Path:
        """Where a job's output goes."""
        return self.folder.slurm / f"{name}.log"

    def last_line(self, name: str) -> str:
        """The last line that a job printed; empty if it printed nothing that can be read."""
        with contextlib.suppress(OSError, InputError):
            text = self.folder.read(self.log(name), MOST_BYTES)[-LOG_BYTES:].decode("utf-8", "replace")
            return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
        return ""

    def _names(self) -> Iterator[str]:
        with contextlib.suppress(FileNotFoundError), self.folder.opened(self.folder.slurm) as place:
            yield from place.names()

    def _read(self, name: str, suffix: str, kind: type[D]) -> D | None:
        """A document; None if there is none, or none that can be believed."""
        path = self.folder.slurm / f"{name}.{suffix}"
        with contextlib.suppress(OSError, InputError, ValidationError):
            return kind.model_validate_json(self.folder.read(path, MOST_BYTES))
        return None

    def _write(self, name: str, document: _Document) -> bool:
        with self.folder.ensured(self.folder.slurm) as place:
            return place.write_first(name, document.model_dump_json().encode())

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self.folder.opened(self.folder.slurm) as place:
            place.remove(name)
