"""A small real study in PyTorch, from the study file to the report."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.store import records, tables
from steplab.store.paths import StudyFolder


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study: 1 and 2 workers, both strategies, two replicates."""
    import subprocess
    import sys

    room = tmp_path_factory.mktemp("torch")
    (room / "study.toml").write_text(
        '[study]\nname = "small"\n[factors]\nframework = ["torch"]\nworkers = [1, 2]\n'
        'strategy = ["sync", "accumulate:4"]\nbatch_size = [8]\noptimizer = ["momentum"]\n'
        "[design]\nreplicates = 2\n[measure]\niterations = 8\nwarmup = 4\n[data]\nsamples = 2000\n"
    )
    command = [Path(sys.executable).with_name("steplab"), "run", "study.toml", "--json"]
    done = subprocess.run(command, cwd=room, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] == 8
    return room / "runs" / "small"


def test_a_record_holds_all_that_is_needed_to_repeat_it(measured: Path) -> None:
    for record in records.all_records(StudyFolder(measured)):
        workers = int(record.config["workers"])
        assert [rank.rank for rank in record.ranks] == list(range(workers))
        for rank in record.ranks:
            native, phased = rank.modes["native"], rank.modes["phased"]
            assert native.warmup.count(False) == phased.warmup.count(False) == 8
            assert native.warmup.count(True) >= 4
            assert {"t_io", "t_h2d", "t_f", "t_b", "t_wait", "t_move", "t_u"} <= set(phased.columns)
        assert record.versions["torch"].startswith("2.13")
        assert record.threads == 1
        assert record.machine.cpus
        assert record.environment and any(line.startswith("torch==") for line in record.environment.lock)
        assert (record.data.source, record.data.samples) == ("generated", 2000)
        assert record.trial in record.command


def test_the_command_in_a_record_repeats_that_trial(measured: Path, steplab: Callable[..., Any]) -> None:
    record = next(records.all_records(StudyFolder(measured)))
    program, *arguments = shlex.split(record.command)
    assert program == "steplab"
    assert steplab(*arguments).code == 0
    again = StudyFolder(Path(arguments[arguments.index("--out") + 1]))
    assert records.done(again) == {record.trial}
    assert next(records.all_records(again)).config == record.config


def test_memory_is_split_as_far_as_the_process_and_pytorch_can_tell(measured: Path) -> None:
    for record in records.all_records(StudyFolder(measured)):
        for rank in record.ranks:
            assert rank.held is not None
            assert (rank.held.parameters, rank.held.state) == (4 * 61706, 4 * 61706)  # momentum: one array more
            assert rank.held.peak is None and rank.held.reserved is None  # there is no GPU
            # The framework. A warm rank that has run a larger trial may need nothing more.
            assert rank.before_bytes is not None and 50e6 < rank.before_bytes <= rank.peak_bytes


def test_an_accumulation_exchanges_once(measured: Path) -> None:
    loaded = tables.load(measured)
    rows = loaded.iterations.to_pandas().merge(loaded.trials[["trial", "workers", "strategy"]], on="trial")
    phased = rows[(rows["mode"] == "phased") & (rows["workers"] == 2) & (rows["strategy"] == "accumulate:4")]
    exchanged = phased.groupby(["trial", "rank"])["t_move"].apply(lambda times: (times > 0).tolist())
    assert all(one == [False, False, False, True] * (len(one) // 4) for one in exchanged)


def test_every_layer_is_timed(measured: Path) -> None:
    layers = tables.load(measured).layers.to_pandas()
    assert {"conv1", "conv2", "dense3", "dense4", "dense5"} <= set(layers["layer"])
    assert (layers.groupby("layer")[["t_f", "t_b"]].sum().loc[["conv1", "conv2"]] > 0).all(axis=None)


def test_analysis_and_report_show_the_study(measured: Path, steplab: Callable[..., Any]) -> None:
    groups = steplab("analyze", measured, "--json").json["groups"]
    assert len(groups) == 4
    for group in groups:
        assert group["t_iter"]["low"] <= group["t_iter"]["median"] <= group["t_iter"]["high"]
        assert group["n"] == 2
        assert group["efficiency"] == pytest.approx(group["speedup"] / group["factors"]["workers"])
        assert group["lif"] >= 1
    page = steplab("report", measured, "--out", "report.html", "--json").json["report"]
    text = Path(page).read_text()
    assert "accumulate:4" in text
    assert 'src="http' not in text


def test_replay_plays_the_study_back(measured: Path, steplab: Callable[..., Any], tmp_path: Path) -> None:
    text = (measured / "study.toml").read_text().replace('["torch"]', f'["replay"]\nrecording = "{measured}"')
    (tmp_path / "replay.toml").write_text(text.replace('name = "small"', 'name = "again"'))
    assert steplab("run", "replay.toml").code == 0
    keys = ["workers", "strategy", "replicate"]
    recorded = tables.load(measured).trials.set_index(keys)["t_iter"].sort_index()
    played = tables.load(tmp_path / "runs" / "again").trials.set_index(keys)["t_iter"].sort_index()
    assert played.tolist() == pytest.approx(recorded.tolist())


OWN = """
from torch import nn

def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))
"""


def test_a_network_of_ones_own_is_measured(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "own.toml").write_text(
        '[study]\nname = "own"\n[factors]\nframework = ["torch"]\nnetwork = ["module:mine:small"]\n'
        "workers = [2]\n[design]\nreplicates = 1\n[measure]\niterations = 4\nwarmup = 1\n[data]\nsamples = 2000\n"
    )
    assert steplab("run", "own.toml").code == 0
    layers = tables.load(tmp_path / "runs" / "own").layers.to_pandas()
    assert set(layers["layer"]) == {"0", "1", "2", "3"}
