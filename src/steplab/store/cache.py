"""What was made from records is kept in the study's folder, in segments that cover some records each.

A segment is used only if this user made it and if it is whole: its index is sealed with a key of the user's own and
names the digest of every file. So a cache that a stranger put there is not even parsed, and a damaged one is made
again. What it tells of a record counts as long as the record's file is the one that it was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import os
import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from steplab.core.atomic import ABANDONED_S
from steplab.core.errors import InputError
from steplab.core.files import read_regular
from steplab.core.home import home
from steplab.store.brief import Brief
from steplab.store.directory import Directory
from steplab.store.paths import StudyFolder
from steplab.store.records import Signature

if TYPE_CHECKING:  # who only counts trials needs none of these, and they take their time
    import pandas as pd
    import pyarrow as pa

    from steplab.store.parts import Part

VERSION = 12  # of the cached tables; another one makes them again
NAMES = ("trials", "iterations", "layers")  # and the tables that kinds of trials add
INDEX = "index"
MOST_INDEX_BYTES = 1 << 30
KEY, KEY_BYTES = "cache.key", 32
FORMER = re.compile(r"\d{3,}-[0-9a-f]{8}")  # how segments were named before they were sealed
# Times hardly repeat: a dictionary of them costs more than it saves, in writing and in reading.
WRITING: Mapping[str, dict[str, Any]] = {"iterations": {"use_dictionary": ["trial", "mode"], "compression": "lz4"}}


@dataclass(frozen=True, eq=False)
class Segment:
    """A cached part, and the briefs of those of its records that are still the files that they were."""

    folder: StudyFolder
    name: str
    files: Mapping[str, tuple[int, str]]  # size and digest
    factors: tuple[str, ...]
    briefs: Mapping[str, Brief]
    is_whole: bool  # whether all of its records are

    def read(self) -> Part | None:
        """The tables of the records that count; None if the files are not what was written."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from steplab.store.of_kinds import table_names
        from steplab.store.parts import Part, only

        if self.files.keys() != {*NAMES, *table_names()}:
            return None  # made where there were other kinds
        try:
            tables = {name: pq.read_table(pa.BufferReader(self._content(name))) for name in self.files}
        except (OSError, InputError, pa.ArrowException):
            return None
        trials, iterations, layers = (tables.pop(name) for name in NAMES)
        part = Part(trials.to_pandas(), iterations, layers, self.factors, tables)
        return part if self.is_whole else only(part, self.briefs)

    def _content(self, name: str) -> bytes:
        size, digest = self.files[name]
        path = self.folder.cache / self.name / f"{name}.parquet"
        content = self.folder.read(path, size)
        if _digest(content) != digest:
            raise InputError("is damaged", where=str(path))
        return content


def segments(folder: StudyFolder, signatures: Mapping[str, Signature]) -> list[Segment]:
    """The cached segments with something to tell of these records; each record is in one of them at most."""
    key, usable = _key(), []
    missing = dict(signatures)
    with contextlib.suppress(OSError, InputError), folder.opened(folder.cache) as cache:
        for name in sorted(_own(cache, key)):
            segment = _segment(folder, cache, name, key, missing)
            if segment is not None and segment.briefs:
                usable.append(segment)
                missing = {trial: missing[trial] for trial in missing.keys() - segment.briefs.keys()}
    return usable


def keep(folder: StudyFolder, part: Part, signatures: Mapping[str, Signature], others: Collection[str]) -> None:
    """Cache a part beside the segments `others`; the rest goes. A cache that cannot be written is no loss."""
    import pyarrow as pa

    key = _key()
    if key:
        with contextlib.suppress(OSError, InputError, pa.ArrowException), folder.ensured(folder.cache) as cache:
            name = _write(cache, part, signatures, key)
            _sweep(cache, {name, *others}, key)


def _segment(
    folder: StudyFolder, cache: Directory, name: str, key: bytes, missing: Mapping[str, Signature]
) -> Segment | None:
    index = _index(cache, name, key)
    if index is None:
        return None
    known = {trial: (Signature(*entry[:3]), Brief(*entry[3:])) for trial, entry in index["records"].items()}
    briefs = {trial: brief for trial, (signature, brief) in known.items() if missing.get(trial) == signature}
    files = {name: (size, digest) for name, (size, digest) in index["files"].items()}
    return Segment(folder, name, files, tuple(index["factors"]), briefs, len(briefs) == len(known))


def _index(cache: Directory, name: str, key: bytes) -> dict[str, Any] | None:
    """The index of a segment, if this user wrote it."""
    try:
        with cache.inner(name) as place:
            seal, _, text = place.read(INDEX, MOST_INDEX_BYTES).partition(b"\n")
    except (OSError, InputError):
        return None
    if not hmac.compare_digest(seal, _seal(text, key)):
        return None
    index: dict[str, Any] = orjson.loads(text)
    return index if index["version"] == VERSION else None


def _write(cache: Directory, part: Part, signatures: Mapping[str, Signature], key: bytes) -> str:
    name = f"{_mark(key)}-{sum(1 for _ in _own(cache, key)):03d}-{uuid.uuid4().hex[:8]}"
    cache.make(name)
    files = {}
    with cache.inner(name) as place:
        for table, content in part.by_name().items():
            packed = _parquet(content, **WRITING.get(table, {}))
            files[table] = (len(packed), _digest(packed))
            place.create(f"{table}.parquet", packed)
        rows = zip(*(part.trials[column] for column in ("trial", *Brief._fields)), strict=True)
        index = {"version": VERSION, "factors": part.factors, "files": files,
                 "records": {trial: (*signatures[trial], *brief) for trial, *brief in rows}}  # fmt: skip
        text = orjson.dumps(index)
        place.write(INDEX, _seal(text, key) + b"\n" + text)
    return name


def _parquet(table: pa.Table | pd.DataFrame, **options: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    content = io.BytesIO()
    pq.write_table(arrow, content, **options)
    return content.getvalue()


def _sweep(cache: Directory, kept: Collection[str], key: bytes) -> None:
    """Remove this user's segments that are of no use, and what killed laboratories left half-written."""
    for entry in list(cache.entries()):
        mine = entry.name.startswith(_mark(key)) or FORMER.fullmatch(entry.name)
        if mine and entry.is_directory and entry.name not in kept:
            with contextlib.suppress(OSError), cache.inner(entry.name) as place:
                written = any(inner.name == INDEX for inner in place.entries())
            if written or entry.age_s > ABANDONED_S or FORMER.fullmatch(entry.name):
                cache.remove_tree(entry.name)


def _own(cache: Directory, key: bytes) -> list[str]:
    return [entry.name for entry in cache.entries() if key and entry.is_directory and entry.name.startswith(_mark(key))]


def _key() -> bytes:
    """The key of this user, made once; empty if there is no place for it, and then nothing is cached."""
    place = home()
    with contextlib.suppress(OSError, InputError):
        if not (place / KEY).exists():
            place.mkdir(parents=True, exist_ok=True)
            with Directory.at(place) as directory:
                directory.write_first(KEY, os.urandom(KEY_BYTES), mode=0o600)
        key = read_regular(place / KEY, KEY_BYTES)
        return key if len(key) == KEY_BYTES else b""
    return b""


def _mark(key: bytes) -> str:
    """By which a user knows segments of their own; it tells nothing of the key."""
    return hashlib.blake2b(b"mark", key=key, digest_size=4).hexdigest()


def _seal(text: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(text, key=key).hexdigest().encode()


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
