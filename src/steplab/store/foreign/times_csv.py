"""Reads plain tables of times, a row per iteration or per trial, as a study.

Names are guessed generously (`fwd [ms]` is t_f in milliseconds) and every guess is noted. A table may also be long: a
column names the phase and another holds its time. Of several tables, later rows that lack a phase take it from the
first table's row with the same factors: measured phases of one worker and exchange times of several so make the
iterations of the S-SGD model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from steplab.core.errors import TableError, allowed
from steplab.core.record import Rank
from steplab.core.trial import Level
from steplab.store.foreign.csv_columns import SECONDS, Roles, named, roles
from steplab.store.foreign.imported import COUNTS, LONGEST_S, ForeignStudy, ForeignTrial, foreign_rank, study_name
from steplab.store.foreign.own_trials import finished, is_own, own_roles
from steplab.store.source import Source, read_source
from steplab_worker.phases import ITERATION, MEASURED, addends

MOST_ROWS = 5_000_000


@dataclass(frozen=True)
class Wishes:
    """What a person says about the tables: which column is what, the unit, the factors, what all rows share."""

    columns: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    factors: tuple[str, ...] = ()
    constants: Mapping[str, Level] = field(default_factory=dict)


def read_times(paths: Sequence[Path], wishes: Wishes) -> ForeignStudy:
    """The tables in these files as one study."""
    if wishes.unit and wishes.unit not in SECONDS:
        raise TableError(f"there is no unit {wishes.unit!r}", where="unit", hint=allowed(SECONDS))
    notes: list[str] = []
    tables = [_table(path, wishes, notes) for path in paths]
    whole = _merged(tables, [path.name for path in paths], notes)
    return study_of(whole, paths, "csv", wishes.constants, notes)


@dataclass(frozen=True)
class Times:
    """Times in seconds by their names in steplab, and the columns that were varied."""

    frame: pd.DataFrame
    factors: tuple[str, ...]
    gaps: bool = False  # whether a factor may have no level in some rows


def study_of(
    table: Times, paths: Sequence[Path], form: str, constants: Mapping[str, Level], notes: Sequence[str]
) -> ForeignStudy:
    """A study from a table of times; what is missing or does not add up is noted."""
    where = ", ".join(str(path) for path in paths)
    told = list(notes)
    checked = _checked(table, {*constants}, where, told)
    return ForeignStudy(study_name(paths[0]), form, where, tuple(_trials(checked, constants)), tuple(told))


def _table(path: Path, wishes: Wishes, notes: list[str]) -> Times:
    """One file as times in seconds and factors."""
    if path.suffix.lower() not in (".csv", ".tsv", ".txt", ".parquet", ".pq"):
        raise TableError("is not a table", where=str(path), hint="allowed: .csv, .tsv, .txt, .parquet")
    source = read_source(path)
    if len(source.frame) > MOST_ROWS:
        raise TableError(f"has more than {MOST_ROWS} rows", where=str(path))
    if is_own(source.frame.columns) and not wishes.columns and not wishes.factors:
        return _own(source, path, notes)
    columns = roles(source, wishes.columns, wishes.factors, str(path))
    for name in (name for name in COUNTS if name in columns.factors):
        _expect_numbers(source.frame[columns.factors[name]], f"{path}, column {columns.factors[name]!r}")
    frame = _wide(source.frame, columns, str(path)) if columns.phase else source.frame
    times = {name: name for name in MEASURED if name in frame} if columns.phase else columns.times
    table = pd.DataFrame({name: frame[column] for name, column in {**columns.factors, **columns.keys}.items()})
    for name, column in times.items():
        unit = columns.units.get(columns.value or column, "") or wishes.unit or "s"
        table[name] = _seconds(frame[column], unit, f"{path}, column {column!r}")
    notes += [f"{path.name}: {note}." for note in (*source.notes, *columns.notes)]
    return Times(table, tuple(columns.factors))


def _own(source: Source, path: Path, notes: list[str]) -> Times:
    """The table of trials that steplab exports; factors that only some trials have leave gaps."""
    frame = finished(source.frame)
    if frame.empty:
        raise TableError("no trial of this table was measured", where=str(path))
    columns = own_roles(frame)
    notes += [f"{path.name}: {note}." for note in ("this is steplab's own table of trials", *columns.notes)]
    return Times(frame[[*columns.factors, *columns.keys, *columns.times]], tuple(columns.factors), gaps=True)


def _wide(frame: pd.DataFrame, columns: Roles, where: str) -> pd.DataFrame:
    """A long table with a column for each phase."""
    keys = [*columns.factors.values(), *columns.keys.values()]
    phases = frame[columns.phase].map(lambda name: named(str(name)) or str(name))
    unknown = next((name for name in phases if name not in MEASURED), None)
    if unknown is not None:
        raise TableError(f"there is no phase {unknown!r}", where=f"{where}, {columns.phase}", hint=allowed(MEASURED))
    long = frame.assign(**{columns.phase: phases}).drop_duplicates([*keys, columns.phase])
    if len(long) < len(frame):
        what = "the same phase stands twice for the same factors"
        raise TableError(what, where=where, hint="add a column replicate or iteration")
    if not keys:
        return long.set_index(columns.phase)[[columns.value]].T.reset_index(drop=True)
    return long.pivot(index=keys, columns=columns.phase, values=columns.value).reset_index()


def _expect_numbers(counts: pd.Series, where: str) -> None:
    """Say which cell is no number: with a single text in it, a column is all texts."""
    wrong = counts[pd.to_numeric(counts, errors="coerce").isna() & counts.notna()]
    if len(wrong):
        what = f"{wrong.iloc[0]!r} in row {wrong.index[0] + 1} is no number"
        raise TableError(what, where=where, hint="give whole numbers from 1 on")


def _seconds(values: pd.Series, unit: str, where: str) -> pd.Series:
    numbers = pd.to_numeric(values, errors="coerce")
    wrong = values[numbers.isna() & values.notna()]
    if len(wrong):
        raise TableError(f"{wrong.iloc[0]!r} is not a time", where=where)
    negative = numbers[numbers < 0]
    if len(negative):
        raise TableError(f"the time {negative.iloc[0]:g} in row {negative.index[0] + 1} is negative", where=where)
    times = numbers.astype(float) * SECONDS[unit]
    endless = times[times > LONGEST_S]
    if len(endless):
        what = f"the time {endless.iloc[0]:g} s in row {endless.index[0] + 1} cannot be"
        raise TableError(what, where=where, hint=f"allowed: from 0 to {LONGEST_S:g} s")
    return times


def _merged(tables: Sequence[Times], names: Sequence[str], notes: list[str]) -> Times:
    """All rows; those of later tables completed from the first one."""
    first, factors = tables[0], dict.fromkeys(factor for table in tables for factor in table.factors)
    frames = [first.frame]
    for table, name in zip(tables[1:], names[1:], strict=True):
        shared = [factor for factor in first.factors if factor in table.factors]
        lacking = [name for name in MEASURED if name in first.frame and name not in table.frame and name != ITERATION]
        if shared != list(first.factors) or first.frame[shared].duplicated().any():
            frames.append(table.frame)
            continue
        for factor in shared:
            kinds = [pd.api.types.is_numeric_dtype(frame[factor]) for frame in (first.frame, table.frame)]
            if kinds[0] != kinds[1]:
                what = f"column {factor!r} holds {'text' if kinds[0] else 'numbers'}"
                raise TableError(what, where=name, hint=f"in {names[0]} it holds {'numbers' if kinds[0] else 'text'}")
        frames.append(
            table.frame.merge(first.frame[[*shared, *lacking]], on=shared, how="left", validate="many_to_one")
        )
        if lacking:
            notes.append(f"{name}: {', '.join(lacking)} come from {names[0]}, from the row with the same factors.")
    whole = pd.concat(frames, ignore_index=True)
    if "workers" in factors and "workers" not in first.factors:
        whole["workers"] = whole["workers"].fillna(1)
        notes.append(f"{names[0]} has no column workers: its rows are taken as one worker's.")
    return Times(whole, tuple(factors), any(table.gaps for table in tables))


def _checked(table: Times, constants: set[str], where: str, notes: list[str]) -> Times:
    """Every row with a t_iter; where none is given, the phases are summed."""
    frame = table.frame
    phases = list(addends(frame.columns))
    parts = frame[phases].sum(axis=1, min_count=1) if phases else pd.Series(float("nan"), index=frame.index)
    given = frame["t_iter"] if "t_iter" in frame else pd.Series(float("nan"), index=frame.index)
    summed = given.isna() & parts.notna()
    if summed.any():
        notes.append(f"{summed.sum()} of {len(frame)} rows have no t_iter: the sum of their phases stands for it.")
    frame = frame.assign(t_iter=given.fillna(parts))
    left = frame[frame["t_iter"].notna()]
    if len(left) < len(frame):
        notes.append(f"{len(frame) - len(left)} rows without any time are left out.")
    if left.empty:
        raise TableError("no row has a time", where=where, hint="name the column: --columns t_iter=COLUMN")
    unequal = (given.notna() & parts.notna() & ((parts - given).abs() > 0.03 * given)).sum()
    if unequal:
        notes.append(f"In {unequal} rows the phases do not sum to t_iter within 3 %: the rest is t_other.")
    missing = [name for name in table.factors if left[name].isna().any()]
    if missing and not table.gaps:
        raise TableError(f"the factor {missing[0]!r} has no value in some rows", where=where)
    for key in ("replicate", "rank"):
        if key in left and left[key].isna().any():
            raise TableError(f"the column of the {key} has no value in some rows", where=where)
    if not {"batch_size", "global_batch_size"} & {*table.factors, *constants}:
        notes.append("The batch size is not known, so there are no samples/s: give it with --set batch_size=N.")
    return Times(left, table.factors, table.gaps)


def _trials(table: Times, constants: Mapping[str, Level]) -> list[ForeignTrial]:
    """Rows gathered into trials: by factors and replicate, and without a column `iteration` each row is its own."""
    frame, factors = table.frame, list(table.factors)
    if "replicate" not in frame:
        single = "iteration" in frame or "rank" in frame
        again = frame.groupby(factors, sort=False, dropna=False).cumcount() if factors else range(len(frame))
        frame = frame.assign(replicate=0 if single else again)
    numbers = {level: at for at, level in enumerate(sorted(frame["replicate"].unique(), key=_order))}
    groups = frame.groupby([*factors, "replicate"], sort=False, dropna=False)
    trials = []
    for key, rows in groups:
        levels = key if isinstance(key, tuple) else (key,)
        config = {name: _level(value) for name, value in zip(factors, levels, strict=False) if not _is_gap(value)}
        trials.append(ForeignTrial({**constants, **config}, numbers[levels[-1]], _ranks(rows)))
    return trials


def _ranks(rows: pd.DataFrame) -> tuple[Rank, ...]:
    """The ranks of a trial; without a column for them the rows are one rank's."""
    by_rank = list(rows.groupby("rank", sort=True)) if "rank" in rows else [(0, rows)]
    ranks = []
    for at, (_, part) in enumerate(by_rank):
        ordered = part.sort_values("iteration", kind="stable") if "iteration" in part else part
        columns = {name: ordered[name].tolist() for name in MEASURED if name in ordered and ordered[name].notna().all()}
        ranks.append(foreign_rank(at, columns))
    return tuple(ranks)


def _is_gap(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _order(value: object) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))


def _level(value: object) -> Level:
    """A cell as a level: whole numbers are whole."""
    if isinstance(value, str | bool):
        return value
    number = float(value)  # type: ignore[arg-type]
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
