"""Training trials: a target accuracy is reached, and whatever is killed goes on without gap or repetition."""

from __future__ import annotations

import contextlib
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from steplab.core.record import Record
from steplab.store import records, tables
from steplab.store.paths import StudyFolder

STEPLAB = Path(sys.executable).with_name("steplab")
PACE = 0.6  # an epoch of the law takes a quarter of a second, so a kill comes before its end on a busy machine, too
REAL = """
[study]
name = "real"
kind = "train"
[factors]
framework = ["{framework}"]
workers = [{workers}]
batch_size = [32]
optimizer = ["momentum"]
learning_rate = [{rate}]
[design]
replicates = 1
[train]
epochs = 20
target_accuracy = 0.85
validation_samples = 150
[data]
samples = 1000
"""
SYNTHETIC = """
[study]
name = "law"
kind = "train"
[factors]
framework = ["synthetic"]
workers = [2]
batch_size = [50]
noise = 0.1
pace = {pace}
compute_s = 0.04
[design]
replicates = 1
[train]
epochs = 12
target_accuracy = 0.8
{more}
[data]
samples = 1000
[measure]
{measure}
"""


def start(study: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([STEPLAB, "run", study, "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def await_epoch(laboratory: subprocess.Popen[bytes], out: Path, epoch: int) -> Path:
    """Wait for the checkpoint of an epoch, or of a later one."""
    while not (found := [path for path in out.glob("checkpoints/*/epoch-*.npz") if int(path.stem[6:]) >= epoch]):
        assert laboratory.poll() is None, "it ended by itself"
        time.sleep(0.02)
    return max(found)


def kill(laboratory: subprocess.Popen[bytes]) -> None:
    laboratory.send_signal(signal.SIGKILL)
    laboratory.wait()


def only_record(out: Path) -> Record:
    (record,) = records.all_records(StudyFolder(out))
    assert record.status == "ok", record.reason
    assert [one.epoch for one in record.epochs] == list(range(1, len(record.epochs) + 1))
    for rank in record.ranks:
        assert len(rank.modes["native"].warmup) == sum(one.iterations for one in record.epochs)
    assert not list(out.glob("checkpoints/*"))
    return record


@pytest.mark.parametrize(("framework", "workers"), [("torch", 1), ("torch", 2), ("chainer", 1)])
def test_a_training_killed_in_the_middle_goes_on_as_if_it_had_not_been(
    tmp_path: Path, no_orphans: Callable[..., None], framework: str, workers: int
) -> None:
    study = tmp_path / "real.toml"
    study.write_text(REAL.format(framework=framework, workers=workers, rate=0.006 * workers))
    laboratory = start(study, tmp_path / "killed")
    await_epoch(laboratory, tmp_path / "killed", 2)
    kill(laboratory)
    no_orphans()
    assert not records.done(StudyFolder(tmp_path / "killed"))
    assert start(study, tmp_path / "killed").wait() == 0
    assert start(study, tmp_path / "whole").wait() == 0
    killed, whole = only_record(tmp_path / "killed"), only_record(tmp_path / "whole")
    assert {one.attempt for one in whole.epochs} == {0}
    assert [one.attempt for one in killed.epochs] == sorted(one.attempt for one in killed.epochs)
    assert {one.attempt for one in killed.epochs} == {0, 1}
    assert len(whole.epochs) < 20
    assert whole.epochs[-1].validation_accuracy >= 0.85 > whole.epochs[-2].validation_accuracy
    for name in ("loss", "train_accuracy", "validation_accuracy", "iterations"):
        expected = [getattr(one, name) for one in whole.epochs]
        assert [getattr(one, name) for one in killed.epochs] == pytest.approx(expected, rel=1e-4), name


def law(tmp_path: Path, pace: float = 0.0, more: str = "", measure: str = "") -> Path:
    study = tmp_path / "law.toml"
    study.write_text(SYNTHETIC.format(pace=pace, more=more, measure=measure))
    return study


def test_the_synthetic_training_follows_its_law(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    assert steplab("run", law(tmp_path), "--out", "out").code == 0
    record = only_record(tmp_path / "out")
    assert len(record.epochs) == math.ceil(5 * math.log(0.88 / 0.18))  # 0.98 - 0.88 exp(-e/5) is at least 0.8
    assert record.epochs[2].validation_accuracy == pytest.approx(0.98 - 0.88 * math.exp(-3 / 5))
    assert {one.iterations for one in record.epochs} == {10}
    by_rank = [sum(rank.modes["native"].columns["t_iter"][:10]) for rank in record.ranks]
    assert record.epochs[0].seconds == pytest.approx(sum(by_rank) / len(by_rank))
    # 166 validation samples are four batches, each a third of the compute time.
    assert record.epochs[0].validation_s == pytest.approx(4 * (0.04 + 50 * 1e-4) / 3)
    row = tables.load(tmp_path / "out").trials.iloc[0]
    assert row["time_to_target_s"] == row["train_s"] == pytest.approx(sum(one.seconds for one in record.epochs))
    assert (row["epochs"], row["validation_accuracy"]) == (8, row["best_validation_accuracy"])
    assert row["t_iter"] > 0


def test_the_table_of_epochs_is_exported_and_the_study_analysed(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    steplab("run", law(tmp_path, more="every = 3"), "--out", "out")
    assert steplab("export", "out", "--table", "epochs", "--to", "epochs.csv", "--json").json["rows"] == 9
    lines = (tmp_path / "epochs.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == (
        "trial,epoch,seconds,validation_s,iterations,loss,train_accuracy,validation_accuracy,attempt"
    )
    validated = [line.split(",")[7] != "" for line in lines[1:]]
    assert validated == [False, False, True] * 3
    assert len(steplab("analyze", "out", "--json").json["groups"]) == 1
    assert steplab("status", "out", "--json").json["ok"] == 1


def test_a_killed_rank_costs_only_the_epochs_since_the_checkpoint(
    tmp_path: Path, steplab: Callable[..., Any], no_orphans: Callable[..., None]
) -> None:
    study, out = law(tmp_path, pace=PACE), tmp_path / "out"
    laboratory = start(study, out)
    await_epoch(laboratory, out, 3)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(laboratory.pid).children(recursive=True)[-1].kill()
    assert laboratory.wait() == 0
    no_orphans()
    record = only_record(out)
    assert [one.status for one in record.attempts] == ["killed"]
    assert {one.attempt for one in record.epochs} == {0, 1}
    steplab("run", study, "--out", "whole")
    whole = only_record(tmp_path / "whole")
    for name in ("epoch", "iterations", "loss", "train_accuracy", "validation_accuracy", "seconds", "validation_s"):
        expected = [getattr(one, name) for one in whole.epochs]
        assert [getattr(one, name) for one in record.epochs] == pytest.approx(expected, rel=1e-12), name
    for rank, other in zip(record.ranks, whole.ranks, strict=True):
        expected = other.modes["native"].columns["t_iter"]
        assert rank.modes["native"].columns["t_iter"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("damaged", ["newest", "all"])
def test_a_damaged_checkpoint_is_told_and_the_one_before_or_none_is_used(
    tmp_path: Path, steplab: Callable[..., Any], damaged: str
) -> None:
    study, out = law(tmp_path, pace=PACE), tmp_path / "out"
    laboratory = start(study, out)
    await_epoch(laboratory, out, 4)
    kill(laboratory)
    there = sorted(out.glob("checkpoints/*/epoch-*.npz"))
    assert len(there) >= 2  # three, where the kill came before the oldest was removed
    spoilt = there[-1:] if damaged == "newest" else there
    for path in spoilt:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert steplab("run", study, "--out", out).code == 0
    record = only_record(out)
    kept = int(there[-2].stem[6:]) if damaged == "newest" else 0
    assert [one.attempt for one in record.epochs] == [0] * (kept or 8) + [1] * (8 - (kept or 8))
    assert record.reason.count("was not used") == len(spoilt)


def test_an_epoch_beyond_its_deadline_is_a_timeout(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    study = law(tmp_path, pace=12.0, measure="timeout_s = 2")
    assert steplab("run", study, "--out", "slow").code == 3
    (record,) = records.all_records(StudyFolder(tmp_path / "slow"))
    assert (record.status, record.epochs) == ("timeout", [])
