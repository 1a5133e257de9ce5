"""Tables that models are fitted to: a study's folder, a CSV or a Parquet file, cleaned of what people write.

Names lose blanks and units (`Batch Size [images]` becomes `batch_size`), numbers written as text become
numbers (`1,024`, `12 ms`), and every such change is noted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from steplab.core.errors import TableError
from steplab.core.files import read_regular
from steplab.core.parsing import parsing
from steplab.store.spreadsheet import restored

if TYPE_CHECKING:
    import pyarrow as pa

    from steplab.store.tables import Tables

MISSING = ("", "-", "--", "?", "na", "n/a", "nan", "none", "null", "missing", "inf", "-inf")
NUMBER = re.compile(r"^\s*([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*([a-zA-Zµμ%/]*)\s*$")
# Thousands at the start of a number, and what follows them; where commas are decimal points, points are between them.
THOUSANDS = {
    commas: re.compile(rf"([-+]?[1-9]\d{{0,2}}(?:[{mark}_ ]\d{{3}})+)(?![\d{mark}_])(.*)")
    for commas, mark in ((False, ","), (True, "."))
}
_UNIT = r"\s*[a-zA-Zµμ%/]*"
# A comma, or a point, that cannot stand between thousands.
DECIMAL_COMMA = re.compile(
    r"[-+]?(?:0,\d+|\d+,(?:\d{1,2}|\d{4,})|\d{4,},\d+|\d{1,3}(?:[._ ]\d{3})+,\d+|\d+,\d+[eE][-+]?\d+)" + _UNIT
)
DECIMAL_POINT = re.compile(
    r"[-+]?(?:0?\.\d+|\d+\.(?:\d{1,2}|\d{4,})|\d{4,}\.\d+|\d{1,3}(?:[,_ ]\d{3})+\.\d+|\d+\.\d+[eE][-+]?\d+)" + _UNIT
)
MOST_BYTES = 256 << 20
MOST_CELLS = 50_000_000
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")


@dataclass(frozen=True)
class Source:
    """A table, what was changed in it, the column whose equal values mark dependent rows, and known factors.

    Only a study knows its factors; of another table names and types tell. `units` are those that stood beside a
    column's name or its numbers.
    """

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    group: str | None = None
    factors: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)


def read_source(path: Path) -> Source:
    """The table of a study's folder, a CSV or a Parquet file."""
    if path.is_dir():
        return _study(path)
    if not path.exists():
        raise TableError("there is no such file or folder", where=str(path))
    if path.suffix.lower() not in SUFFIXES:
        raise TableError(f"{path.suffix or 'a file without suffix'} cannot be read", where=str(path),
                         hint="give a study's folder, a .csv, .tsv or .parquet file")  # fmt: skip
    with parsing("this is not a readable table", str(path), TableError):
        content = read_regular(path, MOST_BYTES)
        parquet = path.suffix.lower() in (".parquet", ".pq")
        frame, separator = (_parquet(content), "") if parquet else _csv(content, str(path))
        if frame.empty:
            raise TableError("the table has no rows", where=str(path))
        return _cleaned(frame, separator == ",")


def frame_source(frame: pd.DataFrame) -> Source:
    """A table that is in memory already, cleaned like one that is read."""
    if frame.empty:
        raise TableError("the table has no rows")
    return _cleaned(frame.copy())


def _study(folder: Path) -> Source:
    from steplab.store.tables import load  # only a study needs the record store

    return study_source(load(folder), folder)


def study_source(tables: Tables, folder: Path) -> Source:
    """A study's finished trials; replicates of one configuration are marked as dependent rows."""
    frame = tables.trials
    if "status" in frame.columns:
        frame = frame[frame["status"] == "ok"].reset_index(drop=True)
    if frame.empty:
        raise TableError("the study has no finished trials", where=str(folder), hint="run it with `steplab run`")
    cleaned = _cleaned(frame)
    factors = tuple(name for name in tables.telling if name in cleaned.frame.columns)
    finished = cleaned.frame
    notes = (*cleaned.notes, *(f"left out: {problem}" for problem in tables.unreadable))
    if factors and finished[list(factors)].duplicated().any():
        finished = finished.assign(configuration=finished.groupby(list(factors), sort=False, dropna=False).ngroup())
        return Source(finished, notes, "configuration", factors)
    return Source(finished, notes, None, factors)


def _parquet(content: bytes) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = pa.BufferReader(content)
    file = pq.ParquetFile(buffer)
    about = file.metadata
    # A few bytes can stand for a billion equal cells: they are counted before any is unpacked.
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    rows = max(about.num_rows, sum(group.num_rows for group in groups))
    unpacked = sum(group.total_byte_size for group in groups)
    if rows * max(about.num_columns, 1) > MOST_CELLS or unpacked > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_CELLS:,} cells or {MOST_BYTES >> 20} MiB")
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    texts = [field.name for field in file.schema_arrow if any(is_kind(field.type) for is_kind in kinds)]
    table = pq.ParquetFile(buffer, read_dictionary=texts).read()
    if sum(map(_text_bytes, table.itercolumns())) > MOST_BYTES:
        raise ValueError(f"its texts have more than {MOST_BYTES >> 20} MiB")
    frame: pd.DataFrame = table.cast(file.schema_arrow).to_pandas()
    return frame.reset_index(drop=list(frame.index.names) == [None])


def _text_bytes(column: pa.ChunkedArray) -> int:
    """How long the texts of a column are, of which the file may hold each once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return 0
    lengths = (pc.take(pc.binary_length(chunk.dictionary), chunk.indices) for chunk in column.chunks)
    return sum(pc.sum(pc.cast(each, pa.int64())).as_py() or 0 for each in lengths)


def _csv(content: bytes, where: str) -> tuple[pd.DataFrame, str]:
    """The cells as texts, and what stands between them."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    separator = max(",;\t", key=text.partition("\n")[0].count)
    frame = pd.read_csv(StringIO(text), sep=separator, dtype=str, keep_default_na=False)
    if not isinstance(frame.index, pd.RangeIndex):
        raise TableError("a row has more cells than the header", where=where)
    return frame.rename(columns=restored).map(restored), separator


def clean_name(name: object) -> str:
    """A column's name without blanks and units; what is a plain name already stays as it is.

    >>> clean_name(" Batch Size [images]"), clean_name("time (ms)"), clean_name("tFwd"), clean_name("5x")
    ('batch_size', 'time', 'tFwd', 'x5x')
    """
    text = str(name).strip().lstrip("\ufeff")
    if text.isidentifier():
        return text
    bare = re.sub(r"[\[({][^\])}]*[\])}]", " ", text)
    bare = re.sub(r"\W+", "_", bare.strip().lower()).strip("_") or re.sub(r"\W+", "_", text).strip("_")
    name = bare if bare[:1].isidentifier() else f"x{bare}"
    return name if name.isidentifier() else "x" + "_".join(str(ord(letter)) for letter in bare)


def _renamed(frame: pd.DataFrame, notes: list[str], units: dict[str, str]) -> pd.DataFrame:
    names: dict[str, None] = {}
    counts: dict[str, int] = {}
    for old in frame.columns:
        bare = new = clean_name(old)
        while new in names:
            counts[bare] = counts.get(bare, 1) + 1
            new = f"{bare}_{counts[bare]}"
        if bracketed := re.search(r"[\[({]\s*([a-zA-Zµμ%/]+)\s*[\])}]", str(old)):
            units[new] = bracketed[1]
        if new != str(old):
            notes.append(f"column {str(old)!r} is read as {new!r}")
        names[new] = None
    return frame.set_axis(list(names), axis=1)


def _number_of(text: str, commas: bool) -> tuple[float, str] | None:
    """The number in a cell, and its unit; commas are decimal points, or stand between thousands."""
    if grouped := THOUSANDS[commas].fullmatch(text):
        text = re.sub(r"[,._ ]", "", grouped[1]) + grouped[2]
    number = NUMBER.match(text.replace(",", ".") if commas else text)
    return (float(number[1]), number[2]) if number else None


def _with_decimal_commas(frame: pd.DataFrame, commas_between_cells: bool) -> list[str]:
    """The columns whose commas are decimal points: a table has one decimal sign, and somewhere it must be the comma.

    A comma that can be neither stays a text, and is asked about; it never becomes another number.
    """
    if commas_between_cells or any(pd.api.types.is_float_dtype(frame[name]) for name in frame):
        return []
    texts = {str(name): _present(frame[name]) for name in frame if not pd.api.types.is_numeric_dtype(frame[name])}
    pointed = [cells for cells in texts.values() if any(map(DECIMAL_POINT.fullmatch, cells))]
    if any(_numbers(cells, False) or _numbers(cells, True) for cells in pointed):
        return []
    signed = [name for name, cells in texts.items() if any("," in cell for cell in cells) and _numbers(cells, True)]
    return signed if any(DECIMAL_COMMA.fullmatch(cell) for name in signed for cell in texts[name]) else []


def _present(values: pd.Series) -> list[str]:
    """The cells of a column that hold something."""
    text = values.astype("string").str.strip()
    return list(text[~_absent(text)])


def _absent(text: pd.Series) -> pd.Series:
    return text.isna() | text.str.lower().isin(MISSING).fillna(True)


def _numbers(cells: Sequence[str], commas: bool) -> bool:
    return all(_number_of(cell, commas) for cell in cells)


def _numeric(values: pd.Series, name: str, commas: bool, notes: list[str], units: dict[str, str]) -> pd.Series:
    """The column as numbers where every value that is there is one, in one unit; otherwise as it was."""
    text = values.astype("string").str.strip()
    absent = _absent(text)
    parsed = [None if gone else _number_of(str(value), commas) for value, gone in zip(text, absent, strict=True)]
    wrong = [value for value, number, gone in zip(text, parsed, absent, strict=True) if not gone and number is None]
    written = {number[1] for number in parsed if number}
    if wrong or not written:
        return text.mask(absent).astype(object)
    if len(written) > 1:
        listed = ", ".join(sorted(repr(unit) for unit in written))
        notes.append(f"column {name!r} mixes units ({listed}) and is read as text")
        return text.mask(absent).astype(object)
    unit = written.pop()
    if unit:
        units[name] = unit
        notes.append(f"column {name!r} is read as numbers in {unit!r}")
    return pd.Series([number[0] if number else None for number in parsed], index=values.index, dtype=float)


def _cleaned(frame: pd.DataFrame, commas_between_cells: bool = False) -> Source:
    notes: list[str] = []
    units: dict[str, str] = {}
    frame = _renamed(frame, notes, units)
    commas = _with_decimal_commas(frame, commas_between_cells)
    if commas:
        notes.append(f"commas in {', '.join(map(repr, commas))} are read as decimal points")
    for name in list(frame.columns):
        values = frame[name]
        if values.dtype == bool:
            frame[name] = values.astype(str).astype(object)
        elif not pd.api.types.is_numeric_dtype(values):
            frame[name] = _numeric(values, name, name in commas, notes, units)
    frame = frame.dropna(axis=1, how="all")
    group = next((c for c in ("trial", "run", "run_id") if c in frame.columns and frame[c].duplicated().any()), None)
    return Source(frame, tuple(notes), group, units=units)
