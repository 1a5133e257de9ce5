"""Makes a study's folder from times that were measured elsewhere; the folder appears whole or not at all."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steplab.core import atomic
from steplab.core.errors import InputError, StoreError
from steplab.core.files import readable
from steplab.core.record import DataInfo, Mode, Rank, Record
from steplab.core.record_parts import MachineInfo, MeasureInfo, ResolvedInfo
from steplab.core.trial import MOST_REPLICATES, PLAIN_LEVELS, Level, is_plain_level, trial_id
from steplab.store import records
from steplab.store.paths import StudyFolder

UNKNOWN = "unknown"
EPOCH = "1970-01-01T00:00:00.000+00:00"  # when nobody wrote down when it was measured
LONGEST_S = 1e9  # of one iteration: thirty years; sums of as many as a table holds stay finite
COUNTS = ("workers", "batch_size", "global_batch_size", "threads", "nodes", "ranks_per_node")
Columns = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class ForeignTrial:
    """One trial as another program measured it: what was varied, and what each rank took."""

    config: Mapping[str, Level]
    replicate: int
    ranks: tuple[Rank, ...]
    known: Mapping[str, Level] = field(default_factory=dict)  # what is known of it without having been varied
    versions: Mapping[str, str] = field(default_factory=dict)
    host: str = UNKNOWN
    started: str = EPOCH


@dataclass(frozen=True)
class ForeignStudy:
    """Trials of one source, with what a person should know about how they were read."""

    name: str
    format: str
    source: str
    trials: tuple[ForeignTrial, ...]
    notes: tuple[str, ...] = ()


def foreign_rank(rank: int, columns: Columns, host: str = UNKNOWN, pid: int = 0) -> Rank:
    """A rank whose iterations were measured once: the same times serve as native and, with phases, as phased ones."""
    plain = {name: list(values) for name, values in columns.items()}
    wrong = next((value for values in plain.values() for value in values if not 0 <= value <= LONGEST_S), None)
    if wrong is not None:
        what = f"a time of rank {rank} is {wrong:g} s, which cannot be"
        raise InputError(what, hint=f"allowed: from 0 to {LONGEST_S:g} s")
    warmup = [False] * len(plain["t_iter"])
    modes = {"native": Mode(columns={"t_iter": plain["t_iter"]}, warmup=warmup)}
    if len(plain) > 1:
        modes["phased"] = Mode(columns=plain, warmup=warmup)
    return Rank(rank=rank, host=host, pid=pid, cpu_s=0.0, peak_bytes=0.0, loss=None, modes=modes)


def write_study(study: ForeignStudy, out: Path, command: str) -> None:
    """Write the folder of an imported study; it must not exist yet, or be empty."""
    must_be_free(out)
    converted = [_record(study, trial, command) for trial in study.trials]
    with appearing(out) as place:
        folder = StudyFolder(place)
        records.prepare(folder, study_text(study))
        for record in converted:
            records.write_record(folder, record)


def must_be_free(out: Path) -> None:
    """Say so if a folder cannot be made there."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        what = "is not empty" if out.is_dir() else "is a file"
        raise InputError(what, where=str(out), hint="give a folder that does not exist yet")


@contextlib.contextmanager
def appearing(out: Path) -> Iterator[Path]:
    """A folder to fill that takes its name only when all is in it; after a mistake nothing is left."""
    try:
        with atomic.folder(out) as place:
            yield place
            place.rename(out)  # an empty folder of that name, as `must_be_free` has seen, is replaced
    except OSError as error:
        raise StoreError(f"{out}: cannot be written ({error.strerror})") from None


def _record(study: ForeignStudy, trial: ForeignTrial, command: str) -> Record:
    known = {**trial.known, **trial.config}
    _check_levels(known)
    _check_counts(known)
    seconds = max(sum(rank.modes["native"].columns["t_iter"]) for rank in trial.ranks)
    return Record(
        study=study.name,
        trial=trial_id(trial.config, trial.replicate),
        replicate=trial.replicate,
        kind="step",
        status="ok",
        config=dict(trial.config),
        resolved=_resolved(known, len(trial.ranks)),
        measure=MeasureInfo(imported=study.format),
        ranks=list(trial.ranks),
        threads=int(known.get("threads", 1)),
        versions={"imported": study.format, **trial.versions},
        machine=MachineInfo(host=trial.host, cpu=UNKNOWN),
        data=DataInfo(name=str(known.get("dataset", UNKNOWN)), source="none", samples=0),
        started=trial.started,
        seconds=seconds,
        command=readable(command),
    )


def _check_levels(known: Mapping[str, Level]) -> None:
    for name, value in known.items():
        if not is_plain_level(value):
            raise InputError(f"the level {str(value)[:40]} is no plain number", where=name, hint=PLAIN_LEVELS)
        if isinstance(value, str) and readable(value) != value:
            raise InputError(f"the level {readable(value)} is not UTF-8 text", where=name)


def _check_counts(known: Mapping[str, Level]) -> None:
    for name in COUNTS:
        value = known.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 1 << 31:
            raise InputError(f"{value!r} is not a count", where=name, hint="give whole numbers from 1 on")


def _resolved(known: Mapping[str, Level], ranks: int) -> ResolvedInfo:
    """What every trial has, where the source does not say it; a batch size that nobody says is not known."""
    workers = int(known.get("workers", ranks))
    whole = known.get("global_batch_size")
    batch_size = _share(float(whole), workers) if whole is not None else None
    words = dict.fromkeys(("framework", "network", "dataset", "optimizer"), UNKNOWN)
    levels = {**words, "batch_size": batch_size, "workers": workers, "threads": 1, **known}
    # Others may call their strategies as they like; only a known one tells how iterations belong together.
    right = re.fullmatch(r"sync|sharded|ps-sync|ps-async|accumulate:[1-9]\d{0,5}", str(known.get("strategy", "sync")))
    return ResolvedInfo.model_validate({**levels, "strategy": right[0] if right else "sync"})


def _share(whole: float, workers: int) -> float:
    """Each worker's part of a global batch: its mean where the batch does not divide, so that no sample is lost.

    >>> _share(64, 4), _share(64, 24)
    (16, 2.6666666666666665)
    """
    each = whole / workers
    return int(each) if each.is_integer() else each


def study_text(study: ForeignStudy) -> str:
    """The study file of an imported folder: what was varied, and where it came from."""
    levels: dict[str, dict[str, Level]] = {}
    for trial in study.trials:
        for name, level in trial.config.items():
            levels.setdefault(name, {})[_toml(level)] = level
    replicates = 1 + max(trial.replicate for trial in study.trials)
    if replicates > MOST_REPLICATES:
        raise InputError(
            f"a configuration has {replicates} values", where=study.source, hint=f"allowed: {MOST_REPLICATES}"
        )
    lines = ["# Imported: steplab reads this folder, but cannot run it.", "[study]"]
    lines += [f"name = {_toml(study.name)}", f"description = {_toml(' '.join(study.notes)[:2000])}", ""]
    lines += ["[imported]", f"format = {_toml(study.format)}", f"source = {_toml(study.source)}", "", "[factors]"]
    lines += [f"{_toml(name)} = [{', '.join(values)}]" for name, values in levels.items()]
    return "\n".join([*lines, "", "[design]", f"replicates = {replicates}", ""])


def _toml(value: Level) -> str:
    r"""A plain value as TOML.

    >>> print(_toml('say "hi"\n'), _toml(True), _toml(1e-3), _toml(1e22))
    "say \"hi\"\u000A" true 0.001 1e+22
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    escaped = readable(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\u{ord(match[0]):04X}", escaped) + '"'


def study_name(path: Path) -> str:
    """A study's name from the name of a file or folder.

    >>> study_name(Path("my runs/Tables (1).csv")), study_name(Path("…"))
    ('Tables-1', 'imported')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name.partition(".")[0]).strip("-._")
    return name[:100] or "imported"
