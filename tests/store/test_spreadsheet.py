"""CSV for spreadsheets: nothing in it is computed, and all of it comes back."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab.store.source import read_source
from steplab.store.spreadsheet import defused, restored

CELLS = st.one_of(st.text(max_size=6), st.from_regex(r"\A'{0,3}[=@+\-\t\r]?'?[0-9.e+\-x]{0,4}\n?\Z"))


@given(st.lists(CELLS, min_size=1, max_size=20))
def test_every_text_comes_back(cells: list[str]) -> None:
    assert [restored(cell) for cell in defused(pa.table({"x": cells})).column("x").to_pylist()] == cells


@given(st.lists(CELLS, min_size=1, max_size=20))
def test_no_cell_begins_like_a_formula_unless_it_is_a_number(cells: list[str]) -> None:
    for cell in defused(pa.table({"x": cells})).column("x").to_pylist():
        assert cell[:1] not in "=@+-\t\r" or cell == "" or float(cell) is not None


def test_numbers_stay_numbers() -> None:
    table = pa.table(
        {"t": [-1.0, 2.0], "n": [-1, 2], "text": ["-5", "+1e3"], "none": pa.array([None, None], pa.string())}
    )
    assert defused(table).to_pydict() == table.to_pydict()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_of_every_type_is_defused(kind: pa.DataType) -> None:
    column = pa.chunked_array([pa.array(["=1", None, "x"]).cast(kind), pa.array(["@a"]).cast(kind)])
    assert defused(pa.table({"x": column})).column("x").to_pylist() == ["'=1", None, "x", "'@a"]


def test_names_of_columns_are_defused_too() -> None:
    assert defused(pa.table({"=cmd": [1]})).column_names == ["'=cmd"]


@pytest.mark.parametrize("level", ["=HYPERLINK(A1)", "@SUM(1)", "-x", "'=quoted"])
def test_an_exported_table_is_read_as_it_was(tmp_path: Path, level: str) -> None:
    content = io.BytesIO()
    pyarrow.csv.write_csv(defused(pa.table({"level": [level, "plain"], "t": [1.0, 2.0]})), content)
    (tmp_path / "t.csv").write_bytes(content.getvalue())
    assert b"\"'" in content.getvalue()
    assert read_source(tmp_path / "t.csv").frame["level"].tolist() == [level, "plain"]
