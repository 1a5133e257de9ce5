"""`steplab import`: folders that every other command reads, and one sentence for what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.cli._options import level

DATA = Path(__file__).parents[2] / "docs" / "sources" / "data" / "published"
MMU = (DATA / "mmu_3_2_phases.csv", DATA / "mmu_3_3_aggregation.csv")
TEXT = "PARAMETER workers\nPOINTS 1 2\nREGION step\nMETRIC t_iter\nDATA 1 1.1\nDATA 1.5 1.6\n"


def profiled(folder: Path) -> Path:
    """A small trace of two ranks, as torch.profiler writes it."""
    folder.mkdir()
    for rank in (0, 1):
        events = [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": 100 * n, "dur": 90 + rank,
             "pid": rank, "tid": 1}
            for n in (1, 2, 3)
        ]  # fmt: skip
        document = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
        (folder / f"worker{rank}.pt.trace.json").write_text(json.dumps(document))
    return folder


@pytest.fixture
def imported(in_process: Callable[..., Any], tmp_path: Path) -> Callable[[str], Path]:
    """An imported folder of a format."""

    def make(form: str) -> Path:
        (tmp_path / "x.txt").write_text(TEXT)
        sources = {"kineto": [profiled(tmp_path / "traces")], "csv": MMU, "extrap": [tmp_path / "x.txt"]}
        ran = in_process("import", form, *sources[form], "--out", "study", "--json")
        assert (ran.code, ran.json["format"]) == (0, form)
        return tmp_path / "study"

    return make


@pytest.mark.parametrize("form", ["kineto", "csv", "extrap"])
def test_every_reader_takes_an_imported_folder(
    form: str, imported: Callable[[str], Path], in_process: Callable[..., Any]
) -> None:
    folder = imported(form)
    status = in_process("status", folder, "--json").json
    assert status["ok"] == status["trials"] > 0
    assert status["left"] == 0
    assert in_process("analyze", folder, "--json").json["groups"]
    for command in (("report", folder), ("export", folder, "--to", "trials.csv"),
                    ("export", folder, "--table", "trace", "--to", "trace.json")):  # fmt: skip
        assert in_process(*command).code == 0


@pytest.mark.parametrize("form", ["kineto", "csv", "extrap"])
def test_an_imported_study_is_not_run(
    form: str, imported: Callable[[str], Path], in_process: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    folder = imported(form)
    ran = in_process("run", folder / "study.toml", "--dry-run")
    assert ran.code == 1
    assert "measured elsewhere" in ran.err
    mixed = in_process("run", study_file(), "--out", folder)
    assert mixed.code == 1
    assert "another kind or measurement protocol" in mixed.err


def test_the_mmu_tables_are_analysed_and_flagged(
    imported: Callable[[str], Path], in_process: Callable[..., Any]
) -> None:
    found = in_process("analyze", imported("csv"), "--json").json
    assert len(found["groups"]) == 27
    assert any("the phases do not sum to t_iter" in sentence for sentence in found["sentences"])


def test_what_is_known_otherwise_can_be_said(in_process: Callable[..., Any], tmp_path: Path) -> None:
    traces = profiled(tmp_path / "traces")
    assert in_process("import", "kineto", traces, "--set", "network=resnet50,batch_size=32", "--out", "s").code == 0
    (group,) = in_process("analyze", "s", "--json").json["groups"]
    assert group["factors"] == {"framework": "torch", "workers": 2, "network": "resnet50", "batch_size": 32}
    # The common period of steps of 90 and 91 µs.
    assert group["throughput"] == pytest.approx(64 / 90.5e-6)


def test_models_are_fitted_to_imported_times(in_process: Callable[..., Any], tmp_path: Path) -> None:
    rows = [f"{batch},{workers},{0.5 + batch / 16 + workers}" for batch in (8, 16, 32, 64) for workers in (1, 2, 3)]
    (tmp_path / "t.csv").write_text("\n".join(["batch,nodes,ms", *rows]).replace("ms", "step_time_ms"))
    assert in_process("import", "csv", "t.csv", "--out", "study").code == 0
    ran = in_process("fit", "study", "--target", "t_iter", "--intrinsic", "batch_size,workers", "--model", "linear",
                  "--out", "m.json", "--json")  # fmt: skip
    assert ran.code == 0
    assert ran.json["train"]["r2"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("kineto", "away"), "there is no such folder"),
        (("csv", "away.csv"), "there is no such file"),
        (("csv", "x.exe"), "is not a table"),
        (("extrap", "away.txt"), "there is no such file"),
        (("csv", MMU[0], "--unit", "h"), "there is no unit 'h'"),
        (("csv", MMU[0], "--columns", "t_iter"), "is not NAME=VALUE"),
        (("csv", MMU[0], "--set", "batch_size=many"), "'many' is not a count"),
        (("csv", MMU[0], "--out", "full"), "is not empty"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_no_folder(
    arguments: tuple[object, ...], said: str, in_process: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    ran = in_process("import", *arguments)
    assert ran.code == 1
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full"]


def test_averages_without_noise_make_no_difference_sure(
    imported: Callable[[str], Path], in_process: Callable[..., Any], tmp_path: Path
) -> None:
    folder = imported("csv")
    found = in_process("analyze", folder, "--json").json
    assert "no difference here is sure" in found["noise"]["caveat"]
    assert any("no difference here is sure" in sentence for sentence in found["sentences"])
    assert {group["t_iter"]["low"] for group in found["groups"]} == {None}
    assert not any(one["differs"] for one in found["effects"])
    assert not any(one["real"] for one in found["frameworks"])
    for options in ((), ("--why",), ("--section", "frameworks"), ("--section", "effects")):
        assert "no difference here is sure" in " ".join(in_process("analyze", folder, *options).out.split())
    assert in_process("report", folder, "--out", tmp_path / "r.html").code == 0
    assert "no difference here is sure" in (tmp_path / "r.html").read_text()
    said = in_process("fit", folder, "--categorical", "framework,network", "--extrinsic", "workers", "--json")
    assert any("not the noise of a repetition" in note for note in said.json["notes"])


def test_a_number_of_hundreds_of_digits_is_a_word() -> None:
    assert level("9" * 400) == "9" * 400
    assert level(str(10**30)) == 1e30


def refused(in_process: Callable[..., Any], *arguments: object) -> str:
    ran = in_process("import", *arguments, "--out", "o")
    assert ran.code == 1 and len(ran.err.splitlines()) == 1 and not Path("o").exists(), ran.err
    return str(ran.err)


@pytest.mark.parametrize("name", ["nodes", "ranks_per_node", "workers"])
def test_what_is_no_count_is_refused(in_process: Callable[..., Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "t.csv").write_text(f"batch_size,{name},t_iter\n8,0,0.1\n8,2,0.2\n")
    assert ": 0 is not a count; give whole numbers from 1 on" in refused(in_process, "csv", "t.csv")
    (tmp_path / "t.csv").write_text(f"batch_size,{name},t_iter\n8,1,0.1\n8,some,0.2\n")
    assert f"column '{name}': 'some' in row 2 is no number" in refused(in_process, "csv", "t.csv")


def test_tables_whose_factor_is_text_in_one_are_refused(in_process: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("units,t_iter\n8,0.1\n16,0.2\n")
    (tmp_path / "b.csv").write_text("units,t_iter\nsmall,0.1\n")
    told = refused(in_process, "csv", "a.csv", "b.csv")
    assert "b.csv: column 'units' holds text; in a.csv it holds numbers" in told


def test_a_trace_of_another_age_is_read(in_process: Callable[..., Any], tmp_path: Path) -> None:
    folder = profiled(tmp_path / "traces")
    for path in folder.iterdir():
        path.write_text(json.dumps(json.loads(path.read_text()) | {"baseTimeNanoseconds": 10**400}))
    assert in_process("import", "kineto", folder, "--out", "o").code == 0


def test_names_that_are_not_utf8_are_written_or_refused(in_process: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "caf\udce9.csv").write_text("batch_size,t_iter\n8,0.1\n16,0.2\n")
    assert r"the level \xff is not UTF-8 text" in refused(in_process, "csv", "caf\udce9.csv", "--set", "network=\udcff")
    assert in_process("import", "csv", "caf\udce9.csv", "--out", "o").code == 0
    assert r"caf\\xe9.csv" in Path("o/study.toml").read_text()
    assert in_process("analyze", "o").code == 0


def test_more_replicates_than_a_study_may_have_are_refused(in_process: Callable[..., Any], tmp_path: Path) -> None:
    values = " ".join("1.0" for _ in range(10_001))
    (tmp_path / "x.txt").write_text(f"PARAMETER workers\nPOINTS 1\nREGION step\nMETRIC t_iter\nDATA {values}\n")
    assert "x.txt: a configuration has 10001 values; allowed: 10000" in refused(in_process, "extrap", "x.txt")
