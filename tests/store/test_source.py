import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab.core.errors import TableError
from steplab.store.source import clean_name, read_source


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_blanks_and_units_leave_the_header_and_are_noted(tmp_path):
    source = read_source(write(tmp_path / "t.csv", " Batch Size [images] ,time (ms)\n8,1.5\n16,2.5\n"))
    assert list(source.frame.columns) == ["batch_size", "time"]
    assert "column ' Batch Size [images] ' is read as 'batch_size'" in source.notes


def test_numbers_written_as_text_become_numbers(tmp_path):
    source = read_source(write(tmp_path / "t.csv", 'a,b,c\n"1,024",12 ms,1e3\n"2,048", 13ms,n/a\n'))
    assert source.frame["a"].tolist() == [1024, 2048]
    assert source.frame["b"].tolist() == [12, 13]
    assert pd.isna(source.frame["c"].iloc[1])
    assert "column 'b' is read as numbers in 'ms'" in source.notes


def test_mixed_units_stay_text_and_are_noted(tmp_path):
    source = read_source(write(tmp_path / "t.csv", "a,b\n12 ms,1\n3 s,2\n"))
    assert source.frame["a"].tolist() == ["12 ms", "3 s"]
    assert any("mixes units" in note for note in source.notes)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_is_found(tmp_path, separator):
    source = read_source(write(tmp_path / "t.csv", f"a{separator}b\n1{separator}2\n"))
    assert source.frame.iloc[0].tolist() == [1, 2]


def test_other_encodings_and_byte_order_marks_are_read(tmp_path):
    assert read_source(write(tmp_path / "a.csv", "größe\n1\n", "latin-1")).frame.shape == (1, 1)
    assert list(read_source(write(tmp_path / "b.csv", "a\n1\n", "utf-8-sig")).frame.columns) == ["a"]


def test_equal_names_are_told_apart(tmp_path):
    frame = read_source(write(tmp_path / "t.csv", "time (s),time [s]\n1,2\n")).frame
    assert list(frame.columns) == ["time", "time_2"]


def test_parquet_is_read(tmp_path):
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [True, False]}).to_parquet(tmp_path / "t.parquet")
    frame = read_source(tmp_path / "t.parquet").frame
    assert frame["c"].tolist() == ["True", "False"]


def test_epochs_of_a_run_are_grouped(tmp_path):
    assert read_source(write(tmp_path / "t.csv", "run,t\n1,2\n1,3\n2,4\n")).group == "run"


@pytest.mark.parametrize(("name", "text", "message"), [
    ("t.csv", "", "not a readable table"),
    ("t.csv", "a,b\n", "no rows"),
    ("t.csv", "a,b\n1,2\n1,2,3,4\n", "not a readable table"),
    ("t.parquet", "nonsense", "not a readable table"),
    ("t.xlsx", "x", "cannot be read"),
])  # fmt: skip
def test_what_is_no_table_is_one_sentence(tmp_path, name, text, message):
    with pytest.raises(TableError, match=message):
        read_source(write(tmp_path / name, text))


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(TableError, match="no such file"):
        read_source(tmp_path / "none.csv")


@given(st.text(min_size=1, max_size=30))
def test_every_clean_name_is_a_name_and_stays_itself(text):
    name = clean_name(text)
    assert name.isidentifier()
    assert clean_name(name) == name


def written(path, table, metadata=None):
    pq.write_table(table if metadata is None else table.replace_schema_metadata({b"pandas": metadata}), path)
    return path


@pytest.mark.parametrize(
    "metadata",
    [b"{}", b"not json", b'{"index_columns": ["x"], "columns": []}', b'{"index_columns": 3}', b"\xff", b"[]"],
)
def test_damaged_notes_of_pandas_in_parquet_are_one_sentence(tmp_path, metadata):
    path = written(tmp_path / "t.parquet", pa.table({"a": [1, 2], "t": [0.1, 0.2]}), metadata)
    try:
        assert len(read_source(path).frame) == 2
    except TableError as error:
        assert str(error).startswith(f"{path}: this is not a readable table")


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_cells_that_are_not_utf8_are_one_sentence(tmp_path, kind):
    cells = pa.array([b"\xff\xfe", b"ok"], pa.binary()).view(kind) if kind == pa.string() else [b"\xff\xfe", b"ok"]
    path = written(tmp_path / "t.parquet", pa.table({"a": cells, "t": [0.1, 0.2]}))
    try:
        assert len(read_source(path).frame) == 2
    except TableError as error:
        assert str(path) in str(error)


def test_a_billion_equal_cells_in_a_small_file_are_counted_before_they_are_unpacked(tmp_path):
    path = tmp_path / "t.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int8)), pa.array(["same"]))
    with pq.ParquetWriter(path, pa.schema({"a": column.type})) as writer:
        for _ in range(60):
            writer.write_table(pa.table({"a": column}))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(TableError, match="it has more than"):
        read_source(path)


def test_a_row_with_more_cells_than_the_header_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("batch_size,workers\n8,1,3,4\n")
    with pytest.raises(TableError, match=r"t\.csv: a row has more cells than the header"):
        read_source(path)


@pytest.mark.parametrize("cells, numbers", [
    (("0,140", "1,500"), [0.14, 1.5]),
    (("0,5", "1.000"), [0.5, 1000]),
    (("0,5", "10 000"), [0.5, 10_000]),
    (("0,5", "1.234,56"), [0.5, 1234.56]),
    (("1234,567", "2,250"), [1234.567, 2.25]),
    (("1,5e-3", "2e-3"), [1.5e-3, 2e-3]),
])  # fmt: skip
def test_commas_are_decimal_points_where_one_cannot_stand_between_thousands(tmp_path, cells, numbers):
    (tmp_path / "t.csv").write_text("batch_size;t_iter\n" + "".join(f"8;{cell}\n" for cell in cells))
    source = read_source(tmp_path / "t.csv")
    assert source.frame["t_iter"].tolist() == numbers
    assert "commas in 't_iter' are read as decimal points" in source.notes


@pytest.mark.parametrize("text, expected", [
    ("a;t_iter\n1;1,024\n2;2,048\n", [1024, 2048]),
    ("a;t_iter\n1;1,234,567\n2;2,048\n", [1_234_567, 2048]),
    ("a;t_iter\n1;1,234.5\n2;2,048\n", [1234.5, 2048]),
    ("loss;t_iter\n0,5;1,140\n0,25;2,280\n", [1.14, 2.28]),  # another column tells
    ("note;t_iter\n1.5x;0,140\nfine;1,500\n", [0.14, 1.5]),
    ("layers;t_iter\n128,256,512;0,140\n64,64;1,500\n", [0.14, 1.5]),
    ("note;t_iter\n2,5x;1,234\nfine;5,678\n", [1234, 5678]),
    ('kernel,t_iter\n"3,3",12.345\n"5,5",23.456\n', [12.345, 23.456]),  # commas are between cells
    ('kernel,t_iter\n"3,3","1,234"\n"5,5","2,345"\n', [1234, 2345]),
    ("kernel;t_iter\n3,3;1.234e-05\n5,5;2.345e-05\n", [1.234e-05, 2.345e-05]),  # points are decimal ones
    ("gpus;t_iter;loss\n0;1,234;0.5\n0,1;5,678;0.25\n", [1234, 5678]),
    ("cuda;t_iter\n12.4;0,140\n12.4;1,500\n", ["0,140", "1,500"]),  # both: a text is asked about
    ("a;t_iter\n1;0,5\n2;1234.567\n", ["0,5", "1234.567"]),
])  # fmt: skip
def test_a_table_has_one_decimal_sign(tmp_path, text, expected):
    (tmp_path / "t.csv").write_text(text)
    frame = read_source(tmp_path / "t.csv").frame
    assert frame["t_iter"].tolist() == expected
    if "gpus" in frame:
        assert frame["gpus"].tolist() == ["0", "0,1"]


def test_a_parquet_file_with_numbers_has_decimal_points(tmp_path):
    columns = {"rate": ["1,234", "5,678"], "loss": ["0,140", "1,500"], "t_iter": [0.5, 0.25]}
    pd.DataFrame(columns).to_parquet(tmp_path / "t.parquet")
    frame = read_source(tmp_path / "t.parquet").frame
    assert (frame["rate"].tolist(), frame["loss"].tolist()) == ([1234, 5678], ["0,140", "1,500"])


def test_many_columns_of_one_name_are_told_apart_quickly(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",".join(f"x [{n}]" for n in range(3000)) + "\n" + ",".join("1" for _ in range(3000)) + "\n")
    columns = list(read_source(path).frame.columns)
    assert columns[:3] == ["x", "x_2", "x_3"] and len(set(columns)) == 3000


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_a_small_file_of_huge_texts_is_refused_before_they_are_unpacked(tmp_path, kind):
    path = tmp_path / "t.parquet"
    some = pa.table({"a": pa.array(["x" * 100_000] * 40).cast(kind), "t_iter": [1.0] * 40})
    with pq.ParquetWriter(path, some.schema) as writer:
        for _ in range(70):
            writer.write_table(some)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(TableError, match="its texts have more than 256 MiB"):
        read_source(path)


def test_a_parquet_table_keeps_the_columns_of_its_index(tmp_path):
    frame = pd.DataFrame({"batch_size": [1, 2], "kind": ["a", "b"], "t_iter": [0.1, 0.2]})
    frame.set_index("batch_size").to_parquet(tmp_path / "named.parquet")
    frame[1:].to_parquet(tmp_path / "numbered.parquet")
    assert sorted(read_source(tmp_path / "named.parquet").frame.columns) == ["batch_size", "kind", "t_iter"]
    assert sorted(read_source(tmp_path / "numbered.parquet").frame.columns) == ["batch_size", "kind", "t_iter"]
