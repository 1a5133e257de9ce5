"""A campaign with played ranks: which trials run, in which order, how often, and what becomes of them."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from steplab.core.errors import StudyError
from steplab.core.record import Record
from steplab.core.trial import Trial
from steplab.design.plan import plan
from steplab.runner import campaign as campaigns
from steplab.runner.campaign import Campaign, check_folder
from steplab.runner.interrupts import Stop
from steplab.runner.observer import Observer
from steplab.runner.ranks.conversation import Failure
from steplab.store import records
from steplab.store.paths import StudyFolder
from steplab.study.file import parse_study
from steplab_worker.messages import Failed

STUDY = """
[study]
name = "played"
[factors]
framework = ["synthetic"]
batch_size = [1, 2, 3]
workers = [2]
{factors}
[design]
replicates = 1
order = "given"
[measure]
iterations = 4
warmup = 1
phases = false
{measure}
"""
CRASH = Failed("failed", "no luck")


@dataclass
class Notes(Observer):
    """Notes all that a campaign tells."""

    events: list[str] = field(default_factory=list)
    stop: Stop = field(default_factory=Stop)
    on_first: Callable[[], None] = lambda: None

    def on_start(self, trial: Trial) -> None:
        self.events.append(f"start {trial.config['batch_size']}")

    def on_record(self, record: Record) -> None:
        self.events.append(f"{record.status} {record.config['batch_size']}")
        self.on_first()

    def on_wait(self, trial: Trial, holder: str) -> None:
        self.events.append(f"wait {trial.config['batch_size']}: {holder.split(',')[0]}")

    def on_tick(self) -> None:
        if not self.events or self.events[-1] != "tick":
            self.events.append("tick")


@pytest.fixture
def begun(tmp_path: Path) -> Callable[..., Campaign]:
    """A campaign in a prepared folder."""

    def begin(groups: Any, measure: str = "", factors: str = "") -> Campaign:
        text = STUDY.format(measure=measure, factors=factors)
        study = parse_study(text, tmp_path / "study.toml")
        folder = StudyFolder(tmp_path / "out")
        records.prepare(folder, text)
        return Campaign(study, plan(study), folder, observer=Notes(), groups=groups)

    return begin


def statuses(campaign: Campaign) -> dict[int, str]:
    return {int(record.config["batch_size"]): record.status for record in records.all_records(campaign.folder)}


def test_every_trial_becomes_a_record(played: Any, begun: Any) -> None:
    campaign = begun(groups := played())
    campaign.run(Stop())
    assert campaign.observer.events == ["start 1", "ok 1", "start 2", "ok 2", "start 3", "ok 3"]
    (record, *_) = records.all_records(campaign.folder)
    assert [rank.modes["native"].warmup for rank in record.ranks] == [[True] + [False] * 4] * 2
    assert (record.environment.name, record.log_tail) == ("played", "rank 0 printed; rank 1 printed; ")
    assert groups.ended == ["closed"]


def test_what_has_a_record_is_not_run_again(played: Any, begun: Any) -> None:
    begun(played()).run(Stop(), limit=2)
    campaign = begun(groups := played())
    campaign.run(Stop())
    assert [job.batch_size for job in groups.jobs] == [3]
    assert statuses(campaign) == {1: "ok", 2: "ok", 3: "ok"}


def test_a_wish_to_stop_ends_it_after_the_trial_that_runs(played: Any, begun: Any) -> None:
    campaign, stop = begun(groups := played()), Stop()
    campaign.observer.on_first = lambda: setattr(stop, "asked", True)
    campaign.run(stop)
    assert statuses(campaign) == {1: "ok"}
    assert groups.ended == ["closed"]


def test_a_failure_is_tried_again_on_a_fresh_group_and_told_in_the_record(played: Any, begun: Any) -> None:
    tries = []
    campaign = begun(groups := played(lambda job: None if tries.append(job) or len(tries) > 1 else CRASH))
    campaign.run(Stop(), limit=1)
    (record,) = records.all_records(campaign.folder)
    assert (record.status, [(one.status, one.reason) for one in record.attempts]) == (
        "ok", [("failed", "rank 0: no luck")],
    )  # fmt: skip
    assert len(groups.discarded) == 1


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (2, 3)])
def test_a_failure_is_tried_as_often_as_the_study_says(retries: int, attempts: int, played: Any, begun: Any) -> None:
    campaign = begun(groups := played(lambda job: CRASH), f"retries = {retries}")
    campaign.run(Stop(), limit=1)
    (record,) = records.all_records(campaign.folder)
    assert (record.status, len(record.attempts), len(groups.jobs)) == ("failed", attempts - 1, attempts)


def test_too_little_memory_is_not_tried_again(played: Any, begun: Any) -> None:
    campaign = begun(groups := played(lambda job: Failed("out-of-memory", "8 GB")))
    campaign.run(Stop(), limit=1)
    assert (list(statuses(campaign).values()), len(groups.jobs)) == (["out-of-memory"], 1)


def test_one_failure_does_not_end_the_others(played: Any, begun: Any) -> None:
    campaign = begun(played(lambda job: CRASH if job.batch_size == 2 else None))
    campaign.run(Stop())
    assert statuses(campaign) == {1: "ok", 2: "failed", 3: "ok"}


def test_ranks_that_do_not_start_are_a_record(played: Any, begun: Any) -> None:
    campaign = begun(played(no_start=Failure("failed", "no interpreter", 0, "printed")), "retries = 0")
    campaign.run(Stop(), limit=1)
    (record,) = records.all_records(campaign.folder)
    assert (record.status, record.reason, record.log_tail) == ("failed", "no interpreter", "printed")
    assert record.environment is None


def test_what_a_framework_cannot_do_is_asked_of_no_rank(played: Any, begun: Any) -> None:
    campaign = begun(groups := played(), factors='strategy = ["ps-sync"]')
    campaign.run(Stop())
    assert set(statuses(campaign).values()) == {"unsupported"}
    assert groups.blocks == []


def test_a_replicate_is_a_block_and_isolation_makes_one_of_each_trial(played: Any, begun: Any) -> None:
    begun(warm := played()).run(Stop(), limit=2)
    assert warm.blocks == [0, 0]
    campaign = begun(fresh := played(), 'isolation = "process"')
    for record in list(records.all_records(campaign.folder)):
        records.supersede(campaign.folder, record.trial)
    campaign.run(Stop())
    assert len({id(block) for block in fresh.blocks}) == 3


def test_an_error_of_the_laboratory_kills_the_ranks(played: Any, begun: Any) -> None:
    campaign = begun(groups := played())
    campaign.observer.on_first = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        campaign.run(Stop())
    assert groups.ended == ["killed"]


def claim(campaign: Campaign, trial: str, **changed: object) -> None:
    """Another laboratory, alive, says that it is at a trial."""
    parent = psutil.Process().parent()
    claim = {"host": socket.gethostname(), "pid": parent.pid, "since": parent.create_time()}
    campaign.folder.claim(trial).write_text(json.dumps(claim | {"expires": time.time() + 60} | changed))


def test_a_claimed_trial_comes_last_and_its_holder_is_named(
    played: Any, begun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begun(played())
    first = campaign.trials[0].id
    claim(campaign, first)
    # The other laboratory gives up as soon as it is waited for.
    monkeypatch.setattr(campaigns.time, "sleep", lambda seconds: campaign.folder.claim(first).unlink(missing_ok=True))
    campaign.run(Stop())
    pid = psutil.Process().parent().pid
    host = socket.gethostname()
    assert campaign.observer.events == [
        "start 2", "ok 2", "start 3", "ok 3", f"wait 1: process {pid} on {host}", "tick", "start 1", "ok 1",
    ]  # fmt: skip


def test_a_trial_that_another_laboratory_finished_meanwhile_is_left_to_it(
    played: Any, begun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(played()).run(Stop(), limit=1)
    (done,) = records.all_records(begun(played()).folder)
    campaign = begun(groups := played())
    records.supersede(campaign.folder, done.trial)
    claim(campaign, done.trial)
    monkeypatch.setattr(campaigns.time, "sleep", lambda seconds: records.write_record(campaign.folder, done))
    campaign.run(Stop())
    assert [job.batch_size for job in groups.jobs] == [2, 3]


def test_no_claim_is_left_behind(played: Any, begun: Any) -> None:
    campaign = begun(played(lambda job: CRASH), "retries = 0")
    campaign.run(Stop())
    assert list(campaign.folder.claims.iterdir()) == []


def test_a_folder_of_another_protocol_is_refused(played: Any, begun: Any) -> None:
    begun(played()).run(Stop(), limit=1)
    other = begun(played(), "precision = 0.1")
    records.write_file(other.folder.study, STUDY.format(measure="", factors="").encode())
    with pytest.raises(StudyError, match="another kind or measurement protocol"):
        check_folder(other.folder, other.study)
    later = begun(played(), "timeout_s = 7")
    check_folder(later.folder, later.study)
