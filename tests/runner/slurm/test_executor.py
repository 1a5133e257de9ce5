"""The submitting laboratory against a Slurm on paper: nothing is submitted twice, every end has its reason."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from steplab.core.errors import EnvironmentFault, InputError
from steplab.core.trial import Status
from steplab.runner.interrupts import Stop
from steplab.runner.observer import Observer
from steplab.runner.slurm import commands, settlement
from steplab.runner.slurm.executor import LEASE, MOST_IN_VAIN, SlurmCampaign
from steplab.store import records
from steplab.store.claims import Claims
from steplab.store.submissions import LastWord

Make = Callable[..., SlurmCampaign]
PaperSlurm = Any  # of conftest.py

ENDS: list[tuple[str, Status, str]] = [
    ("NODE_FAIL", "killed", "lost a node"),
    ("PREEMPTED", "killed", "was preempted by another job"),
    ("TIMEOUT", "timeout", "ran into its time limit"),
    ("CANCELLED", "killed", "was cancelled"),
    ("OUT_OF_MEMORY", "out-of-memory", "ran out of memory"),
    ("FAILED", "failed", "failed"),
]


def submit(campaign: SlurmCampaign, limit: int | None = None) -> None:
    campaign.run(Stop(), limit, detach=True)


def claim(campaign: SlurmCampaign, trial: str, submission: str) -> None:
    """Be the laboratory of a submission, at a trial."""
    assert Claims(campaign.folder, 600.0, submission).take(trial)


def only(campaign: SlurmCampaign) -> str:
    """The id of the only submission without an end."""
    (entry,) = (entry for entry in campaign.ledger.submissions() if not campaign.ledger.end(entry.id))
    return entry.id


@pytest.mark.parametrize("accounting", [False, True])
@pytest.mark.parametrize(("state", "status", "words"), ENDS)
def test_a_trial_that_takes_its_allocation_down_has_slurms_reason(
    campaign: Make, slurm: PaperSlurm, state: str, status: str, words: str, accounting: bool
) -> None:
    for number in ("1", "2"):
        laboratory = campaign(retries=1)
        submit(laboratory)
        trial = next(iter(laboratory.trials)).id
        claim(laboratory, trial, only(laboratory))
        slurm.turn(number, state)
        if accounting:
            slurm.forget(number)
            slurm.kept[number] = f"{state} by 0" if state == "CANCELLED" else state
            slurm.jobs |= {"0": commands.Job("0", "another's", "RUNNING")}
    submit(campaign(retries=1))
    record = records.read_record(laboratory.folder, trial)
    assert (record.status, record.reason) == (status, f"job 2 {words}")
    assert [(attempt.status, attempt.reason) for attempt in record.attempts] == [(status, f"job 1 {words}")]
    assert len(slurm.live) - accounting == 1, "the other trial still has a job"


def test_a_job_that_nobody_remembers_is_lost_and_said_so(campaign: Make, slurm: PaperSlurm) -> None:
    laboratory = campaign(retries=0)
    submit(laboratory)
    trial = next(iter(laboratory.trials)).id
    claim(laboratory, trial, only(laboratory))
    slurm.forget("1")
    submit(campaign(retries=0))
    assert "no accounting says why" in records.read_record(laboratory.folder, trial).reason


def test_a_lost_trial_is_freed_at_once_for_the_next_job(campaign: Make, slurm: PaperSlurm) -> None:
    laboratory = campaign(retries=2)
    submit(laboratory)
    trial = next(iter(laboratory.trials)).id
    claim(laboratory, trial, only(laboratory))
    assert not Claims(laboratory.folder, 600.0, "another").take(trial), "its process may live on another node"
    slurm.turn("1", "NODE_FAIL")
    submit(campaign(retries=2))
    assert Claims(laboratory.folder, 600.0, "another").take(trial)
    assert records.done(laboratory.folder) == set()


def test_a_laboratory_killed_before_slurms_answer_finds_its_job_by_name(campaign: Make, slurm: PaperSlurm) -> None:
    slurm.answers = False
    with pytest.raises(KeyboardInterrupt):
        submit(campaign())
    slurm.answers = True
    laboratory = campaign()
    submit(laboratory)
    assert len(slurm.jobs) == 1
    assert laboratory.ledger.number(only(laboratory)) == "1"


def test_what_never_reached_slurm_is_submitted_anew_after_a_while(
    campaign: Make, slurm: PaperSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.answers = False
    with pytest.raises(KeyboardInterrupt):
        submit(campaign())
    slurm.jobs.clear()
    slurm.answers = True
    submit(campaign())
    assert not slurm.jobs, "it may still be on its way"
    monkeypatch.setattr(settlement, "GRACE_S", 0.0)
    submit(campaign())
    assert len(slurm.jobs) == 1


def test_a_silent_controller_is_waited_for(campaign: Make, slurm: PaperSlurm) -> None:
    slurm.refusal = commands.SlurmSilent("no answer")
    submit(campaign())
    assert not slurm.jobs


def test_who_leaves_at_once_is_told_of_a_silent_controller(
    campaign: Make, monkeypatch: pytest.MonkeyPatch, slurm: PaperSlurm
) -> None:
    def silent() -> list[commands.Job]:
        raise commands.SlurmSilent("`squeue` has not answered")

    monkeypatch.setattr(commands, "queue", silent)
    with pytest.raises(EnvironmentFault, match="has not answered"):
        submit(campaign())


def test_what_slurm_refuses_is_one_sentence_and_no_job(campaign: Make, slurm: PaperSlurm) -> None:
    slurm.refusal = commands.SlurmRefused("`sbatch` failed: invalid partition name specified")
    laboratory = campaign()
    with pytest.raises(EnvironmentFault, match="invalid partition"):
        submit(laboratory)
    slurm.refusal = None
    submit(campaign())
    assert len(slurm.jobs) == 1


def test_at_most_so_many_jobs_at_a_time_and_each_shape_in_its_turn(campaign: Make, slurm: PaperSlurm) -> None:
    submit(campaign("[1, 2]", jobs=3))
    assert sorted(re.findall(r"-(n\w+)-", " ".join(job.name for job in slurm.live))) == ["n1r1c1", "n1r1c1", "n1r2c1"]
    submit(campaign("[1, 2]", jobs=3))
    assert len(slurm.jobs) == 3
    submit(campaign("[1, 2]", jobs=10))
    assert len(slurm.jobs) == 4, "no more jobs than trials"


def test_a_waiting_job_without_trials_is_ended(campaign: Make, slurm: PaperSlurm) -> None:
    laboratory = campaign()
    submit(laboratory)
    for trial in laboratory.trials:
        laboratory.folder.record(trial.id).write_text("{}")
    submit(campaign())
    assert not slurm.live


def test_only_one_laboratory_submits(campaign: Make, slurm: PaperSlurm) -> None:
    laboratory = campaign()
    with laboratory.folder.ensured(laboratory.folder.claims) as claims:
        claims.write(LEASE, b'{"host": "elsewhere", "pid": 1, "since": 1, "expires": %d}' % (time.time() + 60))
    with pytest.raises(InputError, match="another laboratory submits"):
        submit(laboratory)
    assert not slurm.jobs


def test_jobs_of_which_nothing_comes_are_not_submitted_for_ever(campaign: Make, slurm: PaperSlurm) -> None:
    class Doom(Observer):
        def on_jobs(self, text: str) -> None:
            for job in slurm.live:
                slurm.turn(job.number, "FAILED")

    laboratory = campaign(poll_s=0.2)
    laboratory.observer = Doom()
    with pytest.raises(EnvironmentFault, match="before it measured anything"):
        laboratory.run(Stop())
    assert len(slurm.jobs) == MOST_IN_VAIN


def test_what_a_laboratory_cannot_do_on_its_node_is_told(campaign: Make, slurm: PaperSlurm) -> None:
    laboratory = campaign()
    submit(laboratory)
    fault = LastWord(why="fault", text="there is no environment 'torch' for PyTorch")
    laboratory.ledger.note_last_word(only(laboratory), fault)
    slurm.turn("1", "FAILED")
    with pytest.raises(EnvironmentFault, match="job 1 could not work: there is no environment 'torch'"):
        submit(campaign())


def test_a_trial_left_at_the_time_limit_is_a_timeout(campaign: Make, slurm: PaperSlurm) -> None:
    laboratory = campaign(retries=0)
    submit(laboratory)
    trial = next(iter(laboratory.trials)).id
    laboratory.ledger.note_last_word(only(laboratory), LastWord(why="limit", trial=trial))
    slurm.turn("1", "COMPLETED")
    submit(campaign(retries=0))
    record = records.read_record(laboratory.folder, trial)
    assert (record.status, record.reason) == ("timeout", "job 1 reached its time limit")


def test_jobs_of_a_part_of_the_study_are_told_their_trials(campaign: Make) -> None:
    laboratory = campaign()
    first = next(iter(laboratory.trials)).id
    submit(laboratory, limit=1)
    assert [entry.trials for entry in laboratory.ledger.submissions()] == [[first]]


def test_who_cancels_is_not_blamed_on_the_trial(campaign: Make, slurm: PaperSlurm) -> None:
    laboratory = campaign(retries=0)
    submit(laboratory)
    trial = next(iter(laboratory.trials)).id
    claim(laboratory, trial, only(laboratory))
    laboratory.ledger.cancel()
    slurm.turn("1", "CANCELLED")
    settlement.Bookkeeper(laboratory.ledger).look()
    submit(campaign(retries=0))
    assert records.done(laboratory.folder) == set()
    assert len(slurm.live) == 1, "the next run goes on"
