"""Where everything in a study's folder is; no path is joined anywhere else.

study.toml     the study file, as it was run
own_code.json  what identified the study's own code then; only where it has any
choices/       which trials an adaptive design chose, batch by batch, and why
records/       one file per finished trial; its presence is the fact that the trial is done
claims/        which laboratory is at which trial just now; only advice
slurm/         what was submitted to Slurm, how it ended, and which trials were lost with it
superseded/    records of failed trials that were run again
damaged/       what was no record although it had the name of one; its trial was run again
checkpoints/   from which training trials go on, until they are done
cache/         made from the records; deleting it loses nothing

None of these may be a link: a folder that somebody else made must not lead anywhere else. The folder itself may be one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from steplab.core.errors import InputError, RecordError
from steplab.store.directory import NO_LINKS, Directory, Entry

TRIAL = re.compile(r"[0-9a-f]{16}")  # a trial's id: the names of records, claims and checkpoints
RECORD_SUFFIX = ".json"


@dataclass(frozen=True)
class StudyFolder:
    """The folder of one study."""

    root: Path

    @property
    def study(self) -> Path:
        """The study file."""
        return self.root / "study.toml"

    @property
    def own_code(self) -> Path:
        """What identified the study's own code."""
        return self.root / "own_code.json"

    @property
    def choices(self) -> Path:
        """What an adaptive design chose."""
        return self.root / "choices"

    @property
    def records(self) -> Path:
        """The finished trials."""
        return self.root / "records"

    @property
    def claims(self) -> Path:
        """Who is at which trial."""
        return self.root / "claims"

    @property
    def slurm(self) -> Path:
        """What was submitted to Slurm."""
        return self.root / "slurm"

    @property
    def superseded(self) -> Path:
        """Failed trials that were run again."""
        return self.root / "superseded"

    @property
    def damaged(self) -> Path:
        """What could not be read as a record."""
        return self.root / "damaged"

    @property
    def cache(self) -> Path:
        """What can be made again."""
        return self.root / "cache"

    @property
    def checkpoints(self) -> Path:
        """What unfinished trainings go on from."""
        return self.root / "checkpoints"

    def checkpoint(self, trial: str) -> Path:
        """The checkpoints of a trial."""
        return self.checkpoints / trial

    def record(self, trial: str) -> Path:
        """The record of a trial."""
        return self.records / f"{trial}{RECORD_SUFFIX}"

    def claim(self, trial: str) -> Path:
        """The claim on a trial."""
        return self.claims / trial

    @contextmanager
    def opened(self, place: Path) -> Iterator[Directory]:
        """The folder itself or a directory below it, reached without following a link."""
        with ExitStack() as stack:
            directory = stack.enter_context(Directory.at(self.root))
            for name in place.relative_to(self.root).parts:
                directory = stack.enter_context(directory.inner(name))
            yield directory

    @contextmanager
    def ensured(self, place: Path) -> Iterator[Directory]:
        """The same, made if it is not there; the directory above must be."""
        with self.opened(place.parent) as above:
            above.make(place.name)
            with above.inner(place.name) as directory:
                yield directory

    def read(self, path: Path, limit: int) -> bytes:
        """The content of a regular file in the folder, of at most `limit` bytes; no link is followed."""
        with self.opened(path.parent) as directory:
            return directory.read(path.name, limit)

    def has(self, path: Path) -> bool:
        """Whether something has that name, be it a link that leads nowhere."""
        with suppress(OSError, InputError), self.opened(path.parent) as directory:
            directory.status(path.name)
            return True
        return False

    def exists(self) -> bool:
        """Whether this is a study's folder: whether it holds records."""
        with suppress(OSError, InputError), self.opened(self.records):
            return True
        return False

    def must_exist(self) -> None:
        """Say so if this is no study folder, or one that leads elsewhere."""
        self.must_hold_no_links()
        if not self.exists():
            what = "holds no records" if self.root.is_dir() else "there is no such folder"
            hint = "`steplab run STUDY.toml` makes study folders"
            if self.root.is_file():
                what, hint = "is a file, not a study's folder", "`steplab import csv` makes a folder of a table"
            raise RecordError(what, where=str(self.root), hint=hint)

    def must_hold_no_links(self) -> None:
        """Say so if anything that steplab uses here is a link; records are looked at one by one when they are read."""
        files, places = (self.study, self.own_code), (self.records, self.claims, self.slurm, self.choices)
        own = (*files, *places, self.superseded, self.damaged, self.cache, self.checkpoints)
        links = [path for path in self._links(self.root) if path in own] or list(self._links(self.checkpoints))
        if links:
            raise RecordError("is a symbolic link", where=str(links[0]), hint=NO_LINKS)
        others = [entry.name for entry in self._entries(self.root) if not entry.is_directory]
        for place in (self.slurm, self.choices):
            if place.name in others:
                raise RecordError("is not a folder", where=str(place), hint="remove it")

    def _links(self, place: Path) -> Iterator[Path]:
        yield from (place / entry.name for entry in self._entries(place) if entry.is_link)

    def _entries(self, place: Path) -> Iterator[Entry]:
        with suppress(OSError), self.opened(place) as directory:
            yield from directory.entries()
