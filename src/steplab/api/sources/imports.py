"""Making a study's folder from times that other programs measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steplab.api.modelling.rows import Columns, listed
from steplab.api.results.results import Results
from steplab.core.errors import InputError
from steplab.core.trial import Level
from steplab.store.foreign.extrap import read_extrap
from steplab.store.foreign.imported import ForeignStudy, write_study
from steplab.store.foreign.kineto import read_kineto
from steplab.store.foreign.times_csv import Wishes, read_times

Known = Mapping[str, Level]  # what the source does not say, such as {"batch_size": 64}


@dataclass(frozen=True)
class ImportedStudy:
    """A study's folder that was made, and what a person should know about it."""

    folder: Path
    format: str
    trials: int
    ranks: int
    iterations: int
    notes: tuple[str, ...]

    def open(self) -> Results:
        """Open it, as `steplab.open` does."""
        return Results(self.folder)

    def document(self) -> dict[str, Any]:
        """What `steplab import --json` prints."""
        counts = {"trials": self.trials, "ranks": self.ranks, "iterations": self.iterations}
        return {"folder": str(self.folder), "format": self.format, **counts, "notes": list(self.notes)}


def import_kineto(
    places: Path | str | Sequence[Path | str],
    out: Path | str | None = None,
    known: Known | None = None,
    *,
    command: str = "",
) -> ImportedStudy:
    """Read PyTorch profiler (Kineto) traces, one per rank: one trial, its phases and, if there, its layers.

    Args:
        places: The folder with the traces, `*.json` or `*.json.gz`, or the traces themselves.
        out: The new study's folder, by default `runs/<name>`.
        known: What the traces do not say, such as `{"network": "resnet50", "batch_size": 32}`.
        command: What the records name as the command that repeats the import.
    """
    return _written(read_kineto(_paths(places), _checked(known)), out, command)


def import_csv(
    files: Path | str | Sequence[Path | str],
    out: Path | str | None = None,
    known: Known | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    unit: str = "s",
    factors: Columns = (),
    command: str = "",
) -> ImportedStudy:
    """Read plain tables of times: a row per iteration or per trial, wide, or long with a column of phases.

    Args:
        files: One table or several.
        out: The new study's folder, by default `runs/<name>`.
        known: What the tables do not say, such as `{"network": "resnet50"}`.
        columns: Which column is what, such as `{"t_iter": "total"}`.
        unit: Of columns that do not say theirs: s, ms, us, ns.
        factors: The columns that were varied.
        command: What the records name as the command that repeats the import.
    """
    wishes = Wishes(dict(columns or {}), unit, listed(factors), _checked(known))
    return _written(read_times(_paths(files), wishes), out, command)


def import_extrap(
    file: Path | str, out: Path | str | None = None, known: Known | None = None, *, region: str = "", command: str = ""
) -> ImportedStudy:
    """Read measurements in Extra-P's text or JSON-lines format; repeated values are replicates.

    Args:
        file: The measurements.
        out: The new study's folder, by default `runs/<name>`.
        known: What the file does not say, such as `{"framework": "torch"}`.
        region: The region to read, if several have times.
        command: What the records name as the command that repeats the import.
    """
    return _written(read_extrap(Path(file), region, _checked(known)), out, command)


def _paths(places: Path | str | Sequence[Path | str]) -> list[Path]:
    return [Path(places)] if isinstance(places, Path | str) else [Path(place) for place in places]


def _checked(known: Known | None) -> dict[str, Level]:
    for name in known or {}:
        if not name.isidentifier():
            raise InputError(f"{name!r} is not a name", hint="write batch_size=64")
    return dict(known or {})


def _written(study: ForeignStudy, out: Path | str | None, command: str) -> ImportedStudy:
    """The folder of an imported study; every format ends here."""
    folder = Path(out) if out is not None else Path("runs") / study.name
    write_study(study, folder, command)
    ranks = max(len(trial.ranks) for trial in study.trials)
    iterations = sum(len(rank.modes["native"].warmup) for trial in study.trials for rank in trial.ranks)
    return ImportedStudy(folder, study.format, len(study.trials), ranks, iterations, tuple(study.notes))
