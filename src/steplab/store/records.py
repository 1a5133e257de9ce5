"""Records on disk: written once, whole or not at all, without locks."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from steplab.core import aside
from steplab.core.errors import RecordError, StoreError
from steplab.core.record import MAX_BYTES, Record, parse_record
from steplab.store.paths import StudyFolder


def prepare(folder: StudyFolder, study_text: str) -> None:
    """Make the folder and put the study file in it."""
    with _explained(folder.root):
        folder.records.mkdir(parents=True, exist_ok=True)
        folder.claims.mkdir(exist_ok=True)
        aside.sweep(folder.records)
        write_file(folder.study, study_text.encode())


def write_record(folder: StudyFolder, record: Record) -> bool:
    """Write a record; False if the trial already has one (another laboratory was faster: the first one stays)."""
    content = record.model_dump_json().encode()
    with _explained(folder.records), aside.file(folder.record(record.trial), content) as temporary:
        try:
            os.link(temporary, folder.record(record.trial))
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            # No hard links on this file system: a rename, which lets the last one stay, is as atomic.
            temporary.rename(folder.record(record.trial))
    return True


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; what killed processes left beside it goes."""
    aside.sweep(path.parent)
    with _explained(path.parent), aside.file(path, content) as temporary:
        temporary.replace(path)


@contextlib.contextmanager
def _explained(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(f"{place}: the disk is full; what was written before is intact, run again later") from None
        raise StoreError(f"{place}: cannot be written ({error.strerror})") from None


def read_record(path: Path) -> Record:
    """Read one record."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RecordError("is too large for a record", where=str(path))
        return parse_record(path.read_bytes(), str(path))
    except OSError as error:
        raise RecordError(f"cannot be read ({error.strerror})", where=str(path)) from None


def done(folder: StudyFolder) -> set[str]:
    """The ids of the trials that have a record."""
    if not folder.records.is_dir():
        return set()
    return {path.stem for path in folder.records.glob("[!.]*.json")}


def all_records(folder: StudyFolder) -> Iterator[Record]:
    """Every record of a study, in the order of ids."""
    for trial in sorted(done(folder)):
        yield read_record(folder.record(trial))


def supersede(folder: StudyFolder, trial: str) -> None:
    """Put a record aside so that its trial runs again."""
    with _explained(folder.root):
        folder.superseded.mkdir(exist_ok=True)
        folder.record(trial).rename(folder.superseded / f"{trial}.{uuid.uuid4().hex[:8]}.json")
