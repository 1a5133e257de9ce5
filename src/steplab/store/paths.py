"""Where everything in a study's folder is; no path is joined anywhere else.

study.toml     the study file, as it was run
records/       one file per finished trial; its presence is the fact that the trial is done
claims/        which laboratory is at which trial just now; only advice
superseded/    records of failed trials that were run again
checkpoints/   from which training trials go on, until they are done
cache/         made from the records; deleting it loses nothing
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steplab.core.errors import RecordError


@dataclass(frozen=True)
class StudyFolder:
    """The folder of one study."""

    root: Path

    @property
    def study(self) -> Path:
        """The study file."""
        return self.root / "study.toml"

    @property
    def records(self) -> Path:
        """The finished trials."""
        return self.root / "records"

    @property
    def claims(self) -> Path:
        """Who is at which trial."""
        return self.root / "claims"

    @property
    def superseded(self) -> Path:
        """Failed trials that were run again."""
        return self.root / "superseded"

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
        return self.records / f"{trial}.json"

    def claim(self, trial: str) -> Path:
        """The claim on a trial."""
        return self.claims / trial

    def must_exist(self) -> None:
        """Say so if this is no study folder."""
        if not self.records.is_dir():
            what = "holds no records" if self.root.is_dir() else "there is no such folder"
            raise RecordError(what, where=str(self.root), hint="`steplab run STUDY.toml` makes study folders")
