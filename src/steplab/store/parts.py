"""From records to tables in pieces: each part holds the tables of some records, parts are joined into one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from steplab.core.record import Record
from steplab.store.columns import trial_rows
from steplab.store.of_kinds import kind_tables, table_names
from steplab.store.raw import RAW, Raw


@dataclass(frozen=True)
class Part:
    """The tables of some records."""

    trials: pd.DataFrame
    iterations: pa.Table
    layers: pa.Table
    factors: tuple[str, ...]
    of_kinds: Mapping[str, pa.Table]  # the tables that single kinds of trials add, by name

    def by_name(self) -> dict[str, pa.Table | pd.DataFrame]:
        """All tables, by name."""
        return {"trials": self.trials, "iterations": self.iterations, "layers": self.layers, **self.of_kinds}


def part_of(good: Sequence[Record]) -> Part:
    """The tables of these records."""
    factors = dict.fromkeys(factor for record in good for factor in record.config)
    raw = [Raw(record) for record in good]
    return Part(pd.DataFrame(trial_rows(raw)), _iterations(raw), _layers(good), tuple(factors), kind_tables(good))


def joined(parts: Sequence[Part]) -> Part:
    """One part of several."""
    frames = [part.trials for part in parts if len(part.trials)]
    factors = dict.fromkeys(factor for part in parts for factor in part.factors)
    parts = parts or [part_of(())]
    return Part(
        _plain(pd.concat(frames, ignore_index=True)) if frames else pd.DataFrame([]),
        pa.concat_tables([part.iterations for part in parts]),
        pa.concat_tables([part.layers for part in parts]),
        tuple(factors),
        {name: pa.concat_tables([part.of_kinds[name] for part in parts]) for name in table_names()},
    )


def only(part: Part, trials: Collection[str]) -> Part:
    """The part without the rows of other trials."""
    kept = pa.array(trials, pa.string())

    def of_these(table: pa.Table) -> pa.Table:
        return table.filter(pc.is_in(table["trial"], kept))

    frame = part.trials[part.trials["trial"].isin(trials)].reset_index(drop=True)
    of_kinds = {name: of_these(table) for name, table in part.of_kinds.items()}
    return Part(frame, of_these(part.iterations), of_these(part.layers), part.factors, of_kinds)


def _iterations(raw: Sequence[Raw]) -> pa.Table:
    """Every raw iteration of every rank and mode, warm-up marked."""
    blocks = [(times.record.trial, *block) for times in raw for block in times.blocks]
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
    counts, rows = [len(layers) for *_, layers in blocks], [layer for *_, layers in blocks for layer in layers]
    return pa.table(
        {
            "trial": _repeated([trial for trial, *_ in blocks], counts),
            "rank": np.repeat(np.array([rank for _, rank, _ in blocks], dtype=np.int32), counts),
            "layer": pa.array([layer.layer for layer in rows], pa.string()),
            "iteration": pa.array([layer.iteration for layer in rows], pa.int32()),
            "t_f": pa.array([layer.t_f for layer in rows], pa.float64()),
            "t_b": pa.array([layer.t_b for layer in rows], pa.float64()),
        }
    )


def _repeated(values: Sequence[str], counts: Sequence[int]) -> pa.Array:
    different = list(dict.fromkeys(values))
    position = {value: at for at, value in enumerate(different)}
    indices = np.repeat(np.array([position[value] for value in values], dtype=np.int32), counts)
    return pa.DictionaryArray.from_arrays(indices, pa.array(different, pa.string())).cast(pa.string())


def _concatenated(arrays: Sequence[np.ndarray[Any, Any]], kind: type) -> np.ndarray[Any, Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=kind)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of one type each: a factor with numbers in one framework and words in another becomes words."""
    typed = frame.copy()
    for name in [name for name in typed.columns if typed[name].dtype == object]:
        kinds = {type(value) for value in typed[name].dropna()}
        if kinds and kinds <= {int, float}:
            typed[name] = pd.to_numeric(typed[name])
        elif len(kinds) > 1:
            typed[name] = typed[name].map(lambda value: value if value is None or value != value else str(value))
    return typed
