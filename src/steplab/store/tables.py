"""Tables over the records of a study: `trials`, `iterations`, `layers`, `epochs`, for DuckDB and pandas.

Records are parsed once; what came of them is kept under `cache/`. New records, and those that were replaced, are parsed
and kept beside.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from steplab.core import own_code
from steplab.core.background import BackgroundProcess
from steplab.core.errors import RecordError, TableError, nearest
from steplab.core.record import parse_record
from steplab.store import cache, records
from steplab.store.of_kinds import kind_tables, table_names
from steplab.store.parts import Part, joined, part_of
from steplab.store.paths import StudyFolder

if TYPE_CHECKING:
    import duckdb

MOST_SEGMENTS = 16  # then all become one
CHUNK = 2500  # records parsed before their columns are packed
MANY = 5000  # records from which on further processes pay for their start


@dataclass(frozen=True)
class Tables:
    """The tables of a study, and which columns of `trials` are its factors."""

    trials: pd.DataFrame
    iterations: pa.Table
    layers: pa.Table
    factors: tuple[str, ...]
    unreadable: tuple[str, ...] = ()  # what is wrong with records that could not be read
    of_kinds: Mapping[str, pa.Table] = field(default_factory=lambda: kind_tables(()))  # e.g. epochs

    @staticmethod
    def names() -> tuple[str, ...]:
        """The names of all tables."""
        return (*cache.NAMES, *table_names())

    @property
    def epochs(self) -> pa.Table:
        """Every epoch of every training trial."""
        return self.of_kinds["epochs"]

    @property
    def telling(self) -> tuple[str, ...]:
        """The factors without what only identifies one's own code, unless that was measured in several versions."""
        owned = [name for name in own_code.FACTORS if name in self.factors]
        identities = [name for name in (own_code.CODE, own_code.SAMPLE) if name in self.factors]
        if not (owned and identities):
            return self.factors
        known = self.trials[[*owned, *identities]].dropna(subset=identities[:1])  # what was refused has none
        if known.drop_duplicates().duplicated(owned).any():
            return self.factors
        return tuple(name for name in self.factors if name not in identities)

    def connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection that sees the tables by their names and nothing else."""
        import duckdb

        connection = duckdb.connect(":memory:", config={"enable_external_access": False})
        for name in self.names():
            connection.register(name, self._named(name))
        return connection

    def table(self, name: str) -> pa.Table:
        """One table as Arrow."""
        if name not in self.names():
            raise TableError(f"there is no table {name!r}", where="table", hint=nearest(name, self.names()))
        table = self._named(name)
        return pa.Table.from_pandas(table, preserve_index=False) if isinstance(table, pd.DataFrame) else table

    def _named(self, name: str) -> pa.Table | pd.DataFrame:
        return self.of_kinds[name] if name in self.of_kinds else getattr(self, name)


def load(root: Path) -> Tables:
    """The tables of the study in a folder; what could not be read is named."""
    folder = StudyFolder(root)
    folder.must_exist()
    listing = records.listing(folder)
    read = {segment: segment.read() for segment in cache.segments(folder, listing.records)}
    cached = {segment: part for segment, part in read.items() if part is not None}
    fresh = sorted(listing.records.keys() - {trial for segment in cached for trial in segment.briefs})
    unreadable = list(listing.strangers)
    parsed = _parsed(folder, fresh, unreadable)
    whole = joined([*cached.values(), *parsed])
    if any(len(part.trials) for part in parsed):
        merge = len(cached) >= MOST_SEGMENTS
        others = [] if merge else [segment.name for segment in cached]
        cache.keep(folder, whole if merge else joined(parsed), listing.records, others)
    return _finished(whole, tuple(unreadable))


def trials_frame(root: Path) -> pd.DataFrame:
    """The table `trials` of the study in a folder."""
    return load(root).trials


def _parsed(folder: StudyFolder, names: Sequence[str], unreadable: list[str]) -> list[Part]:
    """The columns of records, chunk by chunk; many of them in several processes."""
    work = [functools.partial(_parse, folder, names[at : at + CHUNK]) for at in range(0, len(names), CHUNK)]
    processes = min(os.cpu_count() or 1, len(work)) if len(names) >= MANY else 1
    parts: list[Part] = []
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(BackgroundProcess(__name__)) for _ in range(processes if processes > 1 else 0)]
        for at in range(0, len(work), processes):
            some = work[at : at + processes]
            # A chunk for each at a time: what all of them hold together stays small.
            results = [other.begin(batch) for other, batch in zip(others, some, strict=False)] or some
            for part, problems in (result() for result in results):
                parts.append(part)
                unreadable.extend(problems)
    return parts


def _parse(folder: StudyFolder, names: Sequence[str]) -> tuple[Part, list[str]]:
    """Read records into columns; those that cannot be read are named, not passed over in silence."""
    good, unreadable = [], []
    with _without_collection(), folder.opened(folder.records) as place:
        for name in names:
            try:
                good.append(records.read_from(place, name, parse_record))
            except RecordError as error:
                unreadable.append(str(error))
        return part_of(good), unreadable


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """No garbage collection meanwhile: many small objects are made, none in circles, and looking costs a fifth."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _finished(part: Part, unreadable: tuple[str, ...]) -> Tables:
    trials = part.trials
    if len(trials):
        trials = trials.sort_values(["started", "trial"], ignore_index=True)
    return Tables(trials, part.iterations, part.layers, part.factors, unreadable, part.of_kinds)
