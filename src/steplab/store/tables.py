"""Tables over the records of a study: `trials`, `iterations`, `layers`, `epochs`, for DuckDB and pandas.

Records are parsed once; what came of them is kept in Parquet files under `cache/`, each covering some records. New
records make a new one. A cache that does not fit the records any more is made again.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from steplab.core.beside import Beside
from steplab.core.errors import RecordError, StoreError, TableError, nearest
from steplab.core.record import Record
from steplab.store import records
from steplab.store.columns import trial_rows
from steplab.store.paths import StudyFolder
from steplab.store.raw import RAW, Raw
from steplab.store.training import epochs_table

if TYPE_CHECKING:
    import duckdb

VERSION = 6  # of the cached tables; another one makes them again
NAMES = ("trials", "iterations", "layers", "epochs")
FACTORS = "factors"  # the key under which the trials table carries the names of the study's factors
MOST_SEGMENTS = 16
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
    epochs: pa.Table = field(default_factory=lambda: epochs_table(()))

    def connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection that sees the tables by their names and nothing else."""
        import duckdb

        connection = duckdb.connect(":memory:", config={"enable_external_access": False})
        for name in NAMES:
            connection.register(name, getattr(self, name))
        return connection

    def table(self, name: str) -> pa.Table:
        """One table as Arrow."""
        if name not in NAMES:
            raise TableError(f"there is no table {name!r}", where="--table", hint=nearest(name, NAMES))
        table = getattr(self, name)
        return pa.Table.from_pandas(table, preserve_index=False) if isinstance(table, pd.DataFrame) else table


def load(root: Path) -> Tables:
    """The tables of the study in a folder."""
    folder = StudyFolder(root)
    folder.must_exist()
    done = records.done(folder)
    segments = _valid_segments(folder, done)
    fresh = sorted(done - {name for segment in segments for name in segment.trials})
    unreadable: list[str] = []
    made = _parsed(folder, fresh, unreadable)
    parts = [segment.read() for segment in segments] + made
    tables = _joined(parts)
    if fresh and not unreadable:
        _keep(folder, segments, tables, made, sorted(done))
    return _finished(tables, tuple(unreadable))


def trials_frame(root: Path) -> pd.DataFrame:
    """The table `trials` of the study in a folder."""
    return load(root).trials


@dataclass(frozen=True)
class _Part:
    trials: pd.DataFrame
    iterations: pa.Table
    layers: pa.Table
    factors: tuple[str, ...]
    epochs: pa.Table


@dataclass(frozen=True)
class _Segment:
    """Cached tables of some records."""

    folder: Path
    trials: frozenset[str]
    factors: tuple[str, ...]

    def read(self) -> _Part:
        tables = [pq.read_table(self.folder / f"{name}.parquet") for name in NAMES]
        return _Part(tables[0].to_pandas(), tables[1], tables[2], self.factors, tables[3])


def _valid_segments(folder: StudyFolder, done: set[str]) -> list[_Segment]:
    """The cached segments, if all their records are still there."""
    segments = []
    for note in sorted(folder.cache.glob("*/index.json")):
        try:
            said = json.loads(note.read_text(encoding="utf-8"))
            segment = _Segment(note.parent, frozenset(said["trials"]), tuple(said["factors"]))
            fits = said["version"] == VERSION and segment.trials <= done
        except (OSError, ValueError, KeyError, TypeError):
            fits = False
        if not fits:
            return []
        segments.append(segment)
    covered = [name for segment in segments for name in segment.trials]
    return segments if len(covered) == len(set(covered)) else []


def _parsed(folder: StudyFolder, names: Sequence[str], unreadable: list[str]) -> list[_Part]:
    """The columns of records, chunk by chunk; many of them in several processes."""
    work = [functools.partial(_parse, folder, names[at : at + CHUNK]) for at in range(0, len(names), CHUNK)]
    processes = min(os.cpu_count() or 1, len(work)) if len(names) >= MANY else 1
    made: list[_Part] = []
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(Beside(__name__)) for _ in range(processes if processes > 1 else 0)]
        for at in range(0, len(work), processes):
            some = work[at : at + processes]
            # A chunk for each at a time: what all of them hold together stays small.
            results = [other.begin(one) for other, one in zip(others, some, strict=False)] or some
            for part, problems in (result() for result in results):
                made.append(part)
                unreadable.extend(problems)
    return made


def _parse(folder: StudyFolder, names: Sequence[str]) -> tuple[_Part, list[str]]:
    """Read records into columns; those that cannot be read are named, not passed over in silence."""
    unreadable: list[str] = []
    with _without_collection():
        return _columns(folder, names, unreadable), unreadable


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


def _columns(folder: StudyFolder, names: Sequence[str], unreadable: list[str]) -> _Part:
    good = []
    for name in names:
        try:
            good.append(records.read_record(folder.record(name)))
        except RecordError as error:
            unreadable.append(str(error))
    factors = dict.fromkeys(factor for record in good for factor in record.config)
    raw = [Raw(record) for record in good]
    return _Part(pd.DataFrame(trial_rows(raw)), _iterations(raw), _layers(good), tuple(factors), epochs_table(good))


def _iterations(raw: Sequence[Raw]) -> pa.Table:
    """Every raw iteration of every rank and mode, warm-up marked."""
    blocks = [(one.record.trial, *block) for one in raw for block in one.blocks]
    counts = [len(mode.warmup) for *_, mode, _ in blocks]
    columns: dict[str, Any] = {
        "trial": _repeated([trial for trial, *_ in blocks], counts),
        "mode": _repeated([name for _, _, name, *_ in blocks], counts),
        "rank": np.repeat(np.array([rank for _, rank, *_ in blocks], dtype=np.int32), counts),
        "iteration": _concatenated([np.arange(n, dtype=np.int32) for n in counts], np.int32),
        "warmup": np.array([warm for *_, mode, _ in blocks for warm in mode.warmup], dtype=np.bool_),
    }
    values = np.concatenate([array for *_, array in blocks], axis=1) if blocks else np.empty((len(RAW), 0))
    columns |= {name: pa.array(row, from_pandas=True) for name, row in zip(RAW, values, strict=True)}
    return pa.table(columns)


def _layers(good: Sequence[Record]) -> pa.Table:
    """Every measured layer of every rank."""
    blocks = [(r.trial, rank.rank, rank.layers) for r in good for rank in r.ranks if rank.layers]
    counts, rows = [len(layers) for *_, layers in blocks], [one for *_, layers in blocks for one in layers]
    return pa.table(
        {
            "trial": _repeated([trial for trial, *_ in blocks], counts),
            "rank": np.repeat(np.array([rank for _, rank, _ in blocks], dtype=np.int32), counts),
            "layer": pa.array([one.layer for one in rows], pa.string()),
            "iteration": pa.array([one.iteration for one in rows], pa.int32()),
            "t_f": pa.array([one.t_f for one in rows], pa.float64()),
            "t_b": pa.array([one.t_b for one in rows], pa.float64()),
        }
    )


def _repeated(values: Sequence[str], counts: Sequence[int]) -> pa.Array:
    different = list(dict.fromkeys(values))
    position = {value: at for at, value in enumerate(different)}
    indices = np.repeat(np.array([position[value] for value in values], dtype=np.int32), counts)
    return pa.DictionaryArray.from_arrays(indices, pa.array(different, pa.string())).cast(pa.string())


def _concatenated(arrays: Sequence[np.ndarray[Any, Any]], kind: type) -> np.ndarray[Any, Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=kind)


def _joined(parts: Sequence[_Part]) -> _Part:
    frames = [part.trials for part in parts if len(part.trials)]
    factors = dict.fromkeys(factor for part in parts for factor in part.factors)
    empty = _Part(pd.DataFrame([]), _iterations([]), _layers([]), (), epochs_table([]))
    return _Part(
        _plain(pd.concat(frames, ignore_index=True)) if frames else empty.trials,
        pa.concat_tables([part.iterations for part in parts] or [empty.iterations]),
        pa.concat_tables([part.layers for part in parts] or [empty.layers]),
        tuple(factors),
        pa.concat_tables([part.epochs for part in parts] or [empty.epochs]),
    )


def _keep(folder: StudyFolder, old: Sequence[_Segment], whole: _Part, made: Sequence[_Part], done: list[str]) -> None:
    """Cache what was parsed; with many segments, everything in one. A cache that cannot be written is no loss."""
    merge = len(old) >= MOST_SEGMENTS
    part = whole if merge or not old else _joined(made)
    known: set[str] = set() if merge else {name for segment in old for name in segment.trials}
    if merge or not old:
        _clear(folder.cache)
    place = folder.cache / f"{len(list(folder.cache.glob('*'))):03d}-{uuid.uuid4().hex[:8]}"
    with contextlib.suppress(OSError, StoreError, pa.ArrowException):
        place.mkdir(parents=True)
        pq.write_table(pa.Table.from_pandas(part.trials, preserve_index=False), place / "trials.parquet")
        # Times hardly repeat: a dictionary of them costs more than it saves, in writing and in reading.
        kept = {"use_dictionary": ["trial", "mode"], "compression": "lz4"}
        pq.write_table(part.iterations, place / "iterations.parquet", **kept)
        pq.write_table(part.layers, place / "layers.parquet")
        pq.write_table(part.epochs, place / "epochs.parquet")
        index = {"version": VERSION, "trials": [n for n in done if n not in known], "factors": part.factors}
        records.write_file(place / "index.json", json.dumps(index).encode())


def _clear(cache: Path) -> None:
    import shutil

    for place in cache.glob("*"):
        shutil.rmtree(place, ignore_errors=True)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of one type each: a factor with numbers in one framework and words in another becomes words."""
    made = frame.copy()
    for name in [name for name in made.columns if made[name].dtype == object]:
        kinds = {type(value) for value in made[name].dropna()}
        if kinds and kinds <= {int, float}:
            made[name] = pd.to_numeric(made[name])
        elif len(kinds) > 1:
            made[name] = made[name].map(lambda value: value if value is None or value != value else str(value))
    return made


def _finished(part: _Part, unreadable: tuple[str, ...]) -> Tables:
    trials = part.trials
    if len(trials):
        trials = trials.sort_values(["started", "trial"], ignore_index=True)
    return Tables(trials, part.iterations, part.layers, part.factors, unreadable, part.epochs)
