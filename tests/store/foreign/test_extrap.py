"""Extra-P's formats: what a study writes comes back, and what is not one of them is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from steplab.core.errors import InputError
from steplab.store import tables
from steplab.store.foreign.extrap import extrap_text, read_extrap
from steplab.store.foreign.imported import write_study
from steplab.store.foreign.times_csv import Wishes, read_times

TIMES = """framework,workers,batch_size,replicate,t_iter,t_f,t_b
torch,1,8,0,3,1,1.5
torch,2,8,0,4,1,1.5
torch,1,16,0,5,2,2.5
torch,2,16,0,6,2,2.5
jax,1,8,0,3.5,1,1.25
jax,2,8,0,4.5,1,1.25
jax,1,16,0,5.5,2,2.25
jax,2,16,0,6.5,2,2.25
torch,1,8,1,3.25,1,1.75
"""


@pytest.fixture
def study(tmp_path: Path) -> tables.Tables:
    (tmp_path / "times.csv").write_text(TIMES)
    write_study(read_times([tmp_path / "times.csv"], Wishes()), tmp_path / "study", "")
    return tables.load(tmp_path / "study")


def rows(loaded: tables.Tables) -> list[tuple[object, ...]]:
    names = ["framework", "workers", "batch_size", "replicate", "t_iter", "t_f", "t_b"]
    return sorted(tuple(row) for row in loaded.trials[names].itertuples(index=False))


@pytest.mark.parametrize("as_lines", [False, True])
def test_what_is_written_comes_back(study: tables.Tables, as_lines: bool, tmp_path: Path) -> None:
    made = extrap_text(study, as_lines=as_lines)
    assert (made.parameters, made.points) == (("workers", "batch_size"), 4)
    (tmp_path / "again.txt").write_text(made.text)
    write_study(read_extrap(tmp_path / "again.txt"), tmp_path / "again", "")
    assert rows(tables.load(tmp_path / "again")) == rows(study)


def test_the_text_is_as_extra_p_documents_it(study: tables.Tables) -> None:
    lines = extrap_text(study, as_lines=False).text.splitlines()
    assert lines[:3] == ["PARAMETER workers", "PARAMETER batch_size", "POINTS ( 1 8 ) ( 1 16 ) ( 2 8 ) ( 2 16 )"]
    at = lines.index("REGION framework=torch")
    assert lines[at + 1 : at + 6] == ["METRIC t_iter", "DATA 3.0 3.25", "DATA 5.0", "DATA 4.0", "DATA 6.0"]


def test_a_hole_in_the_design_needs_json_lines(study: tables.Tables) -> None:
    trials = study.trials[~((study.trials["framework"] == "jax") & (study.trials["workers"] == 2))]
    holed = tables.Tables(trials, study.iterations, study.layers, study.factors)
    with pytest.raises(InputError, match=r"missing at some point.*JSON lines"):
        extrap_text(holed, as_lines=False)
    assert extrap_text(holed, as_lines=True).points == 4


def test_a_study_without_numbers_to_vary_is_refused(study: tables.Tables) -> None:
    only = study.trials[(study.trials["workers"] == 1) & (study.trials["batch_size"] == 8)]
    with pytest.raises(InputError, match="no factor with numbers varies"):
        extrap_text(tables.Tables(only, study.iterations, study.layers, study.factors), as_lines=False)


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "x.txt").write_text(text)
    return tmp_path / "x.txt"


def test_a_file_of_extra_ps_own_example_form_is_read(tmp_path: Path) -> None:
    text = "# comment\nPARAMETER p\nPOINTS 4 8\nREGION reg\nMETRIC metr\nDATA 1 1.5\nDATA 2 2.5\n"
    study = read_extrap(written(tmp_path, text))
    found = [(t.config, t.replicate, t.ranks[0].modes["native"].columns["t_iter"]) for t in study.trials]
    assert found == [({"p": 4}, 0, [1.0]), ({"p": 4}, 1, [1.5]), ({"p": 8}, 0, [2.0]), ({"p": 8}, 1, [2.5])]
    assert any("is read as t_iter" in note for note in study.notes)


TREE = "PARAMETER p\nPOINTS 4\nREGION main\nMETRIC time\nDATA 9\nREGION main->solve\nMETRIC time\nDATA 5\n"


def test_of_several_regions_one_must_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="several regions have times; choose one with --region"):
        read_extrap(written(tmp_path, TREE))
    (trial,) = read_extrap(written(tmp_path, TREE), region="main->solve").trials
    assert trial.ranks[0].modes["native"].columns["t_iter"] == [5]


def test_regions_may_be_phases(tmp_path: Path) -> None:
    text = "PARAMETER p\nPOINTS 4\nREGION forward\nMETRIC time\nDATA 2\nREGION backward\nMETRIC time\nDATA 5\n"
    (trial,) = read_extrap(written(tmp_path, text)).trials
    assert trial.ranks[0].modes["phased"].columns == {"t_iter": [7], "t_f": [2], "t_b": [5]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no measurement"),
        ("HELLO 1\n", "unknown field 'HELLO'"),
        ("POINTS 1\n", "before any PARAMETER"),
        ("PARAMETER p\nPOINTS ( 1 2 )\n", "2 numbers for 1 parameters"),
        ("PARAMETER p\nPOINTS 1\nDATA 1\nDATA 2\n", "more DATA lines than the 1 POINTS"),
        ("PARAMETER p\nPOINTS 1\nDATA x\n", "are not numbers"),
        ("PARAMETER p\nPOINTS 1\nDATA nan\n", "no finite number"),
        ("PARAMETER p\nPOINTS 1\nDATA -1\n", "is negative"),
        ('{"params": 3}\n', "line 1: is not a measurement"),
        ('{"params": {"p": 1}, "value": "x"}\n', "line 1: is not a measurement"),
    ],
)
def test_a_file_that_is_no_extra_p_file_is_one_sentence(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        read_extrap(written(tmp_path, text))


LINE = st.one_of(
    st.sampled_from(["PARAMETER p", "PARAMETER q r", "POINTS 1 2", "POINTS (1 2)(3 4)", "REGION a=b", "METRIC time",
                     "METRIC x", "DATA 1 2", "DATA", "REGION",
                     '{"params": {"p": 1}, "value": 2}', '{"value": 1}', "{"]),
    st.text(max_size=8),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(LINE, max_size=9))
@example(lines=["PARAMETER p", "POINTS 1 2", "PARAMETER p", "DATA 1 2"])
def test_whatever_the_lines_it_is_a_study_or_one_sentence(lines, tmp_path_factory) -> None:
    place = tmp_path_factory.mktemp("fuzz")
    (place / "x.txt").write_text("\n".join(lines))
    try:
        write_study(read_extrap(place / "x.txt"), place / "out", "")
    except InputError:
        assert not (place / "out").exists()
        return
    assert tables.load(place / "out").unreadable == ()
