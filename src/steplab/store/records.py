"""Records on disk: written once, whole or not at all, without locks; each has the name of the trial that it holds."""

from __future__ import annotations

import contextlib
import errno
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic_core import PydanticSerializationError

from steplab.core import atomic
from steplab.core.errors import InputError, RecordError, StoreError
from steplab.core.files import expect_regular, readable
from steplab.core.record import MAX_BYTES, Head, Record, parse_head, parse_record
from steplab.store.directory import Directory
from steplab.store.paths import RECORD_SUFFIX, TRIAL, StudyFolder

H = TypeVar("H", bound=Head)
Parse = Callable[[bytes, str], H]

# What keeps a good record from being read.
OF_THE_NAME = {errno.EISDIR, errno.ENAMETOOLONG}  # and not of the folder that a file is written in
NOT_NOW = {errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE}


class OutOfReach(RecordError):
    """A record is there, but this user, or just now nobody, can read it: it may be a good one."""


class Signature(NamedTuple):
    """What a file is without being read: another record of the same trial has another one."""

    size: int
    changed_ns: int  # which nobody can set back, unlike the time of the content
    inode: int


@dataclass(frozen=True)
class Listing:
    """What has the name of a record, by its trial, not yet read; and what lies among the records under other names."""

    records: dict[str, Signature]
    strangers: tuple[str, ...]  # a sentence on each


def prepare(folder: StudyFolder, study_text: str) -> None:
    """Make the folder and put the study file in it."""
    with _explained(folder.root):
        folder.root.mkdir(parents=True, exist_ok=True)
        folder.must_hold_no_links()
        with folder.ensured(folder.records) as records:
            records.sweep()
            records.must_be_writable()  # better now than after the first trial
        with contextlib.suppress(OSError), folder.ensured(folder.claims) as claims:  # only advice
            claims.sweep()
        write_file(folder.study, study_text.encode())


def write_record(folder: StudyFolder, record: Record) -> bool:
    """Write a record; False if the trial already has one (another laboratory was faster: the first one stays)."""
    path = folder.record(record.trial)
    with _explained(folder.records), folder.opened(folder.records) as records:
        return records.write_first(path.name, record_json(record))


def record_json(record: Record) -> bytes:
    r"""A record as JSON; what is not UTF-8 in the name of a folder is written as `\xff`."""
    try:
        return record.model_dump_json().encode()
    except PydanticSerializationError:
        return orjson.dumps(_readable(record.model_dump()))


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {_readable(key): _readable(inner) for key, inner in value.items()}
    return [_readable(inner) for inner in value] if isinstance(value, list) else value


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, in the place of a link of its name; what was left beside it is swept."""
    atomic.sweep(path.parent)
    with _explained(path.parent):
        _must_be_replaceable(path)
        with Directory.at(path.parent) as directory:
            directory.write(path.name, content)


def _must_be_replaceable(path: Path) -> None:
    """A device or a FIFO must not become a file: `--out /dev/null` would take it from everybody."""
    with contextlib.suppress(FileNotFoundError):
        expect_regular(path.stat().st_mode, str(path))


@contextlib.contextmanager
def _explained(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(f"{place}: the disk is full; what was written before is intact, run again later") from None
        named = error.filename if error.errno in OF_THE_NAME and isinstance(error.filename, str) else place
        raise StoreError(f"{named}: cannot be written ({error.strerror})") from None


def read_record(folder: StudyFolder, trial: str) -> Record:
    """Read the record of a trial."""
    with _opened(folder) as records:
        return read_from(records, trial, parse_record)


def read_heads(folder: StudyFolder, trials: Iterable[str]) -> Iterator[Head]:
    """The heads of these trials' records; those that cannot be read are left out."""
    with _opened(folder) as records:
        for trial in trials:
            with contextlib.suppress(RecordError):
                yield read_from(records, trial, parse_head)


def read_from(records: Directory, trial: str, parse: Parse[H]) -> H:
    """The record of a trial, or its head alone, from the open directory of the records."""
    name = trial + RECORD_SUFFIX
    where = records.where(name)
    try:
        record = parse(records.read(name, MAX_BYTES), where)
    except (OSError, InputError) as error:
        raise _unreadable(error, where) from None
    if record.trial != trial:
        raise RecordError(f"holds the trial {record.trial}, not the one of its name", where=where)
    return record


@contextlib.contextmanager
def _opened(folder: StudyFolder) -> Iterator[Directory]:
    """The directory of the records."""
    try:
        with folder.opened(folder.records) as records:
            yield records
    except OSError as error:
        raise _unreadable(error, str(folder.records)) from None


def _unreadable(error: OSError | InputError, where: str) -> RecordError:
    """Whatever keeps a record from being read, as one kind of error."""
    if isinstance(error, RecordError):
        return error
    if isinstance(error, InputError):
        return RecordError(error.what, where=error.where, hint=error.hint)
    kind = OutOfReach if error.errno in NOT_NOW else RecordError
    return kind(f"cannot be read ({error.strerror})", where=where)


def listing(folder: StudyFolder) -> Listing:
    """What lies in the folder of the records; nothing if there is none."""
    signatures: dict[str, Signature] = {}
    strangers = []
    if folder.has(folder.records):
        with _opened(folder) as records:
            for entry in records.entries():
                trial = _trial_of(entry.name)
                if trial:
                    about = entry.status
                    signatures[trial] = Signature(about.st_size, about.st_ctime_ns, about.st_ino)
                elif entry.name.endswith(RECORD_SUFFIX) and not entry.name.startswith("."):
                    strangers.append(f"{records.where(entry.name)}: is not named by a trial's id")
    return Listing(signatures, tuple(sorted(strangers)))


def done(folder: StudyFolder) -> set[str]:
    """The ids of the trials that have a record."""
    if not folder.has(folder.records):
        return set()
    with _opened(folder) as records:
        return {trial for name in records.names() if (trial := _trial_of(name))}


def _trial_of(name: str) -> str:
    """The trial whose record has that name; empty for other files."""
    trial = name.removesuffix(RECORD_SUFFIX)
    return trial if trial != name and TRIAL.fullmatch(trial) else ""


def all_records(folder: StudyFolder) -> Iterator[Record]:
    """Every record of a study, in the order of ids."""
    for trial in sorted(done(folder)):
        yield read_record(folder, trial)


def supersede(folder: StudyFolder, trial: str) -> None:
    """Put a record aside so that its trial runs again."""
    _put_aside(folder, trial, folder.superseded)


def put_damaged_aside(folder: StudyFolder, trial: str) -> None:
    """Put aside what has the name of a trial's record and is none, so that the trial runs again."""
    _put_aside(folder, trial, folder.damaged)


def _put_aside(folder: StudyFolder, trial: str, place: Path) -> None:
    name = folder.record(trial).name
    with (
        _explained(folder.root),
        folder.opened(folder.records) as records,
        folder.ensured(place) as other,
        contextlib.suppress(FileNotFoundError),  # another laboratory has moved it just now
    ):
        records.move(name, other, f"{trial}.{uuid.uuid4().hex[:8]}{RECORD_SUFFIX}")
