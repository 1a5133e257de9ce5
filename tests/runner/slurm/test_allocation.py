"""The laboratory inside an allocation: trials of its shape, none too long for its time, always a last word."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from steplab.core.resolution import resolve
from steplab.runner.slurm import allocation
from steplab.runner.slurm.allocation import Laboratory, end_of_allocation, main
from steplab.runner.slurm.executor import SlurmCampaign
from steplab.runner.slurm.shapes import shape_of
from steplab.store import records
from steplab.store.submissions import JobEnd, Shape, Submission

Make = Callable[..., SlurmCampaign]
ONE, TWO = (Shape(nodes=1, ranks_per_node=ranks, cpus_per_rank=1) for ranks in (1, 2))


def submitted(campaign: SlurmCampaign, shape: Shape = ONE, trials: list[str] | None = None) -> Submission:
    entry = Submission(id="0123456789", shape=shape, created=time.time(), trials=trials or [])
    campaign.ledger.open(entry)
    return entry


def test_only_trials_of_its_shape_are_run(campaign: Make) -> None:
    study = campaign("[1, 2]")
    word = Laboratory(study.folder, submitted(study, TWO), None, float("inf")).work()
    assert (word.why, word.trial, word.records) == ("done", "", 2)
    assert {record.resolved.workers for record in records.all_records(study.folder)} == {2}


def test_only_the_trials_that_it_was_told_are_run(campaign: Make) -> None:
    study = campaign()
    first = next(iter(study.trials)).id
    Laboratory(study.folder, submitted(study, trials=[first]), None, float("inf")).work()
    assert records.done(study.folder) == {first}


def test_no_second_trial_is_begun_that_would_not_end_in_time(campaign: Make) -> None:
    study = campaign()
    laboratory = Laboratory(study.folder, submitted(study), None, time.time() + allocation.LEAVE_S)
    assert laboratory.work().records == 1, "the first may try: no later job has more time"


def test_slurms_warning_ends_it_after_the_trial_that_runs(campaign: Make) -> None:
    study = campaign()
    laboratory = Laboratory(study.folder, submitted(study), None, float("inf"))
    laboratory.stop.asked = True
    word = laboratory.work()
    assert (word.why, word.records) == ("limit", 0)


@pytest.mark.parametrize(("end", "why"), [(float("inf"), "signal"), (0.0, "limit")])
def test_an_end_at_once_names_the_trial_that_is_left(
    campaign: Make, monkeypatch: pytest.MonkeyPatch, end: float, why: str
) -> None:
    study = campaign()
    trial = next(iter(study.trials)).id

    def ended(*_: object) -> None:
        raise allocation.Terminated

    monkeypatch.setattr("steplab.runner.campaign.attempt", ended)
    word = Laboratory(study.folder, submitted(study), None, end).work()
    assert (word.why, word.trial) == (why, trial)
    assert not list(study.folder.claims.iterdir())


def test_a_job_that_is_no_longer_wanted_runs_nothing(campaign: Make, capsys: pytest.CaptureFixture[str]) -> None:
    study = campaign()
    entry = submitted(study)
    study.ledger.note_end(entry.id, JobEnd(state="", reason="never reached Slurm"))
    assert main([str(study.folder.root), entry.id]) == 0
    assert "no longer wanted" in capsys.readouterr().out
    assert not records.done(study.folder)


def test_a_folder_that_the_node_does_not_see_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere"), "0123456789"]) == 1
    assert "is it shared with this node?" in capsys.readouterr().out


def test_the_end_of_the_allocation_is_slurms_own_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", "1794921340")
    assert end_of_allocation() == 1794921340.0
    monkeypatch.delenv("SLURM_JOB_END_TIME")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(allocation.commands, "end_of_job", lambda number: "2026-11-17T13:12:16")
    assert end_of_allocation() == time.mktime((2026, 11, 17, 13, 12, 16, 0, 0, -1))
    monkeypatch.setattr(allocation.commands, "end_of_job", lambda number: "N/A")
    assert end_of_allocation() == float("inf")


def test_a_shape_counts_nodes_ranks_cpus_and_gpus() -> None:
    trial = {"framework": "torch", "nodes": 2, "ranks_per_node": 3, "threads": 4, "loader_workers": 2}
    assert str(shape_of(resolve(trial), gpus=3)) == "n2r3c6g3"
    assert str(shape_of(resolve({**trial, "device": "cpu"}), gpus=3)) == "n2r3c6"
