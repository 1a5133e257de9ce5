"""`steplab export`: files, a timeline, other programs' stores; nothing half-written, nothing overwritten."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.store.source import read_source

STUDY = """[study]
name = "rehearsal"
[factors]
framework = ["synthetic"]
batch_size = [8, 16]
workers = [1, 2]
[design]
replicates = 2
[measure]
iterations = 8
warmup = 2
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that was run once for all tests here."""
    place = tmp_path_factory.mktemp("measured")
    (place / "study.toml").write_text(STUDY)
    command = [Path(sys.executable).with_name("steplab"), "run", "study.toml", "--out", "runs"]
    subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=300)
    return place / "runs"


@pytest.fixture
def folder(measured: Path, tmp_path: Path) -> Path:
    """A copy of the study, to do as one likes."""
    return Path(shutil.copytree(measured, tmp_path / "runs"))


def test_the_default_timeline_is_of_the_highest_throughput(folder: Path, in_process: Callable[..., Any]) -> None:
    said = in_process("export", folder, "--table", "trace", "--to", "trace.json", "--json").json
    best = max(in_process("analyze", folder, "--json").json["groups"], key=lambda group: group["throughput"])
    assert said["config"] == best["factors"]
    assert said["why"] == "the highest throughput"
    events = json.loads((folder.parent / "trace.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {1, 2}
    assert {"t_f", "t_b", "t_move", "t_u"} <= {event["name"] for event in events}


def test_a_trial_can_be_named_and_the_output_is_the_same_each_time(
    folder: Path, in_process: Callable[..., Any]
) -> None:
    trial = sorted((folder / "records").glob("*.json"))[0].stem
    for name in ("a.json", "b.json"):
        ran = in_process("export", folder, "--table", "trace", "--trial", trial, "--to", name)
        assert trial in ran.out
    assert (folder.parent / "a.json").read_bytes() == (folder.parent / "b.json").read_bytes()


@pytest.mark.parametrize("where", ["mlflow:out", "tensorboard:out", "extrap:out.txt", "out.extrap.txt", "out.parquet"])
def test_every_target_is_written(where: str, folder: Path, in_process: Callable[..., Any]) -> None:
    ran = in_process("export", folder, "--to", where, "--json")
    assert ran.code == 0
    assert ran.json["rows"] in (4, 8)
    assert Path(folder.parent, ran.json["file"]).exists()


def test_the_experiment_of_a_folder_whose_name_is_not_utf8_is_readable(
    folder: Path, in_process: Callable[..., Any]
) -> None:
    odd = folder.rename(folder.with_name("n\udcff x"))
    ran = in_process("export", odd, "--to", "mlflow:out")
    assert ran.code == 0, ran.err
    (about,) = (odd.parent / "out").glob("*/meta.yaml")
    assert r'name: "n\\xff x"' in about.read_text()


def test_extra_p_gives_back_what_it_was_given(folder: Path, in_process: Callable[..., Any]) -> None:
    assert in_process("export", folder, "--to", "x.extrap.txt").code == 0
    assert in_process("import", "extrap", "x.extrap.txt", "--out", "back").code == 0

    def medians(place: object) -> dict[tuple[int, int], float]:
        groups = in_process("analyze", place, "--json").json["groups"]
        return {(g["factors"]["batch_size"], g["factors"]["workers"]): g["t_iter"]["median"] for g in groups}

    assert medians("back") == pytest.approx(medians(folder))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "x.doc"), "no known ending"),
        (("--to", "mlfow:x"), "did you mean 'mlflow'"),
        (("--to", "mlflow:full"), "is not empty"),
        (("--to", "tensorboard:full"), "is not empty"),
        (("--to", "away/x.csv"), "there is no such folder"),
        (("--to", "extrap:away/x.txt"), "there is no such folder"),
        (("--table", "trace", "--to", "x.csv"), "a trace goes into a .json file"),
        (("--to", "x.json"), "a trace goes into a .json file"),
        (("--table", "layers", "--to", "mlflow:x"), "takes the table trials"),
        (("--table", "trace", "--to", "x.json", "--trial", "abc"), "there is no trial 'abc'"),
        (("--to", "x.csv", "--trial", "abc"), "goes with the table 'trace' only"),
        (("--table", "nothing", "--to", "x.csv"), "there is no table 'nothing'"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    arguments: tuple[str, ...], said: str, folder: Path, in_process: Callable[..., Any]
) -> None:
    full = folder.parent / "full"
    full.mkdir()
    (full / "file").write_text("mine")
    before = sorted(folder.parent.iterdir())
    ran = in_process("export", folder, *arguments)
    assert ran.code == 1
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert sorted(folder.parent.iterdir()) == before
    assert [path.name for path in full.iterdir()] == ["file"]


def test_a_study_with_only_failures_has_no_timeline(folder: Path, in_process: Callable[..., Any]) -> None:
    for path in (folder / "records").glob("*.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"status": "failed", "reason": "made so", "ranks": []}))
    ran = in_process("export", folder, "--table", "trace", "--to", "x.json")
    assert (ran.code, "no trial has been measured" in ran.err) == (1, True)
    assert in_process("export", folder, "--to", "mlflow:runs-of-failures").code == 0


@pytest.mark.parametrize("table", ["trials", "iterations", "layers", "epochs"])
def test_every_table_is_written_as_csv(folder: Path, in_process: Callable[..., Any], table: str) -> None:
    assert in_process("export", folder, "--table", table, "--to", "table.csv").code == 0
    assert "trial" in (folder.parent / "table.csv").read_text().splitlines()[0]


def test_a_level_that_a_spreadsheet_would_compute_comes_back_from_csv(
    tmp_path: Path, in_process: Callable[..., Any]
) -> None:
    (tmp_path / "t.csv").write_text("workers,label,t_iter\n1,'=1+1,0.1\n2,-x,0.2\n")
    assert in_process("import", "csv", "t.csv", "--out", "study").code == 0
    assert in_process("export", "study", "--to", "out.csv").code == 0
    text = (tmp_path / "out.csv").read_text()
    assert '"\'=1+1"' in text
    assert '"\'-x"' in text
    assert set(read_source(tmp_path / "out.csv").frame["label"]) == {"=1+1", "-x"}


def test_an_export_says_what_it_leaves_out(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    assert steplab("run", study_file(), "--out", "out").code == 0
    damaged = min((tmp_path / "out/records").iterdir())
    damaged.write_text("{")
    ran = steplab("export", "out", "--to", "trials.csv")
    assert (ran.code, f"left out: out/records/{damaged.name}: is not a record" in ran.err) == (0, True)
