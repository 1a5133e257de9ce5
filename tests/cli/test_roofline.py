"""`steplab roofline` and `steplab import ncu` as a user meets them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from steplab.cli._import_ncu import register
from steplab.cli.roofline import app
from steplab.core.errors import SteplabError
from steplab.costs.roofs import Ceiling, Ceilings, Level
from steplab.runner.instruments import ceilings as measuring
from steplab.store.foreign.imported import write_study
from steplab.store.foreign.times_csv import Wishes, read_times

MEASURED = Ceilings(
    "AMD EPYC",
    (
        Ceiling(1, 80e9, (Level("L3", 75e9, 32 << 20), Level("DRAM", 20e9)), 0.05, 0.02),
        Ceiling(2, 140e9, (Level("L3", 140e9, 32 << 20), Level("DRAM", 31e9)), 0.08, 0.02),
    ),
    "measured",
    "PyTorch 2.13.0",
    "2026-01-01 10:00 UTC",
)
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
NCU = f""""ID","Kernel Name","{FFMA}","dram__bytes.sum","gpu__time_duration.sum"
"","","inst","Mbyte","usecond"
"0","void a_kernel_whose_name_goes_on_and_on<float, 128, 64>(float*)","1,000,000","2","100"
"1","copy","0","2","50"
"""


@pytest.fixture(autouse=True)
def this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ceilings as if measured: tests of the command need no 15 s."""
    monkeypatch.setattr(measuring, "measure_here", lambda seconds, progress: MEASURED)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "home"))


def call(made: typer.Typer, *words: object) -> str:
    result = CliRunner().invoke(made, list(map(str, words)))
    if isinstance(result.exception, SteplabError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def ncu(*words: object) -> str:
    group = typer.Typer()
    group.callback()(lambda: None)
    register(group)
    return call(group, "ncu", *words)


def test_alone_it_shows_the_ceilings_per_thread_count() -> None:
    made = json.loads(call(app, "--json"))
    assert [(row["threads"], row["flops_per_s"], row["bytes_per_s"]) for row in made["ceilings"]] == [
        (1, 80e9, 20e9),
        (2, 140e9, 31e9),
    ]
    assert made["points"] == []
    assert made["ceilings"][0]["levels"][-1]["capacity_bytes"] is None
    text = call(app)
    assert "measured 2026-01-01 10:00 UTC through PyTorch" in text and "20 G" in text


@pytest.mark.parametrize(
    "words", [["resnet18", "--all"], ["efficientnet_b0", "--machine", "a100", "--all"], ["resattnet3d18"]]
)
def test_tables_fit_eighty_columns(words: list[str]) -> None:
    lines = [line for line in call(app, *words).splitlines() if not line.startswith(("ceilings", "note"))]
    assert max(map(len, lines)) <= 80


def test_a_network_on_a_machine_file_is_estimated_and_marked_so() -> None:
    made = json.loads(call(app, "alexnet", "--machine", "a100", "--batch", "16", "--json"))
    points = {(point["layer"], point["pass"]): point for point in made["points"]}
    assert all(point["estimated"] and point["share_of_roof"] is None for point in points.values())
    assert points["dense6", "forward"]["bound"] == "bandwidth"
    assert points["conv2", "backward"]["bound"] == "compute"
    assert points["conv2", "forward"]["flops_per_s"] == 19.5e12
    assert "estimated: no time was measured" in call(app, "alexnet", "--machine", "a100")


def test_a_folder_without_records_does_not_hide_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lenet5").mkdir()
    monkeypatch.chdir(tmp_path)
    assert json.loads(call(app, "lenet5", "--json"))["points"]


def test_threads_choose_the_row() -> None:
    made = json.loads(call(app, "lenet5", "--threads", "1", "--json"))
    assert {point["threads"] for point in made["points"]} == {1}


def test_the_precision_chooses_the_roof_of_this_machine_and_a_study_has_its_own(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves = tuple(replace(row, flops_per_s=3 * row.flops_per_s, precision="bfloat16") for row in MEASURED.rows)
    both = replace(MEASURED, rows=MEASURED.rows + halves)
    assert "the roof of bfloat16 is not known" in call(app, "lenet5", "--precision", "bfloat16")
    monkeypatch.setattr(measuring, "measure_here", lambda seconds, progress: both)
    usual = json.loads(call(app, "lenet5", "--json", "--remeasure"))["points"]
    fastest = json.loads(call(app, "lenet5", "--precision", "bfloat16", "--json"))["points"]
    assert max(point["flops_per_s"] for point in usual) == 140e9
    assert max(point["flops_per_s"] for point in fastest) == 3 * 140e9
    with pytest.raises(SteplabError, match="below the roof of their own precision"):
        call(app, study, "--precision", "bfloat16")


@pytest.fixture
def study(tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]) -> Path:
    """A finished study on the synthetic framework."""
    assert steplab("run", study_file(network=["lenet5"], batch_size=[8, 64], threads=[1])).code == 0
    return tmp_path / "runs" / "rehearsal"


def test_a_study_has_points_for_layers_and_phases_below_its_threads_roofs(study: Path, tmp_path: Path) -> None:
    page = tmp_path / "chart.html"
    made = json.loads(call(app, study, "--out", page, "--json"))
    assert {point["threads"] for point in made["points"]} == {1}
    assert len({point["configuration"] for point in made["points"]}) == 2
    phases = [point for point in made["points"] if point["kind"] == "phase"]
    assert {point["layer"] for point in phases} == {"t_f", "t_b", "t_u"}
    for point in made["points"]:
        assert point["flops_per_s"] == pytest.approx(point["flops"] / point["seconds"])
        assert point["share_of_roof"] == pytest.approx(point["flops_per_s"] / point["attainable_flops_per_s"])
    assert page.read_text().count("Plotly.newPlot(") >= 2
    assert "t_b" in call(app, study)


def test_an_inference_has_a_forward_phase(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    assert steplab("run", study_file("served", kind="infer", network=["lenet5"])).code == 0
    made = json.loads(call(app, tmp_path / "runs" / "served", "--json"))
    assert [(point["layer"], point["pass"]) for point in made["points"]] == [("t_f", "forward")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["alexnett"], "did you mean 'alexnet'"),
        (["runs/none"], "there is no such folder"),
        (["lenet5", "--machine", "a10"], "did you mean 'a100'"),
        (["lenet5", "--machine", "a100", "--precision", "fp8"], "there is no peak for the precision 'fp8'"),
        (
            ["lenet5", "--precision", "int8"],
            "there is no peak for the precision 'int8'; allowed: 'float32', 'bfloat16'",
        ),
        (["lenet5", "--input", "3x"], "is not a shape"),
        (["lenet5", "--out", "chart.png"], "has no known ending"),
        (["lenet5", "--out", "nowhere/chart.html"], "there is no such folder"),
    ],
)
def test_wrong_words_are_one_sentence(words: list[str], message: str) -> None:
    with pytest.raises(SteplabError, match=message) as caught:
        call(app, *words)
    assert "\n" not in str(caught.value)


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    (tmp_path / "kernels.csv").write_text(NCU)
    return tmp_path / "kernels.csv"


def test_kernels_are_placed_on_the_roofline_of_their_gpu(kernels: Path, tmp_path: Path) -> None:
    made = json.loads(ncu(kernels, "--machine", "rtx2080", "--json"))
    assert (made["flops"], made["launches"]) == (2e6, 2)
    (point,) = made["points"]
    assert (point["intensity"], point["roof"]) == (1.0, "DRAM")
    assert point["share_of_roof"] == pytest.approx(2e6 / 100e-6 / 448e9)
    assert any("lower bound" in note for note in made["notes"])
    text = ncu(kernels, "--machine", "rtx2080", "--out", tmp_path / "chart.html")
    assert max(len(line) for line in text.splitlines() if not line.startswith(("note", "written"))) <= 80
    assert "lower bound" in text and "not placed" in text
    assert "Plotly.newPlot" in (tmp_path / "chart.html").read_text()


def test_kernels_can_be_read_without_a_machine(kernels: Path, tmp_path: Path) -> None:
    out = tmp_path / "kernels.json"
    assert "2 launches of 2 kernels, 2 MFLOP" in ncu(kernels, "--out", out)
    assert [one["flops"] for one in json.loads(out.read_text())["kernels"]] == [2e6, 0.0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.csv"], "there is no such file"),
        (["kernels.csv", "--out", "chart.html"], "a chart needs roofs"),
        (["kernels.csv", "--out", "chart.svg"], "has no known ending"),
    ],
)
def test_wrong_imports_are_one_sentence(words: list[str], message: str, kernels: Path, monkeypatch) -> None:
    monkeypatch.chdir(kernels.parent)
    with pytest.raises(SteplabError, match=message):
        ncu(*words)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "nothing can be counted: framework, network, dataset of its trials are not known"),
        ({"framework": "keras", "network": "lenet5", "dataset": "mnist"}, "framework = 'keras' must be one of"),
        ({"framework": "torch", "network": "../x", "dataset": "mnist"}, "network = '../x' must be one of"),
        ({"framework": "torch", "network": "lenet5", "dataset": "mnist", "optimizer": "lion"}, "optimizer = 'lion'"),
        ({"framework": "torch", "network": "lenet5", "dataset": "mnist", "strategy": "accumulate:x"}, "is no strategy"),
    ],
)
def test_an_imported_study_with_foreign_names_is_one_sentence(
    tmp_path: Path, said: dict[str, str], message: str
) -> None:
    (tmp_path / "t.csv").write_text("batch_size,t_iter\n8,0.1\n16,0.2\n")
    write_study(read_times([tmp_path / "t.csv"], Wishes(constants=said)), tmp_path / "theirs", "")
    with pytest.raises(SteplabError, match=message):
        call(app, tmp_path / "theirs", "--machine", "a100")


def test_a_global_batch_that_does_not_divide_has_no_roofline(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("global_batch_size,workers,t_iter\n64,24,0.1\n")
    known = {"framework": "torch", "network": "lenet5", "dataset": "mnist"}
    write_study(read_times([tmp_path / "t.csv"], Wishes(constants=known)), tmp_path / "theirs", "")
    with pytest.raises(SteplabError, match="a global batch of 64 does not divide among 24 workers"):
        call(app, tmp_path / "theirs", "--machine", "a100")
