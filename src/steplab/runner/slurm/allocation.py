"""The laboratory inside an allocation: takes trial after trial of its shape, and leaves before its time is over.

Slurm's warning (USR1) lets it end after the trial that runs; a few seconds before the limit, and at SIGTERM (cancelled,
preempted), it ends at once. Whatever makes it leave, its last word is in the ledger.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import FrameType

from steplab.core.errors import SteplabError
from steplab.core.record import Record
from steplab.core.trial import Trial
from steplab.design.plan import Plan, PlannedTrial, plan
from steplab.runner.campaign import Campaign
from steplab.runner.environments import registry
from steplab.runner.interrupts import Stop
from steplab.runner.observer import Observer
from steplab.runner.slurm import commands
from steplab.runner.slurm.forecast import Forecast
from steplab.runner.slurm.nodes import Allocation
from steplab.runner.slurm.shapes import shapes
from steplab.store.own_code_file import read_own_code
from steplab.store.paths import StudyFolder
from steplab.store.submissions import LastWord, Ledger, Submission
from steplab.study.file import read_study

LEAVE_S = 8.0  # before the limit: for the ranks' end and the last word


class TimeIsUp(BaseException):
    """The allocation ends in a few seconds."""


class Terminated(BaseException):
    """Slurm ends the job: cancelled, preempted, or over its limit."""


@dataclass
class Notebook(Observer):
    """Remembers the trial that runs and how many ended; says so in the job's log."""

    forecast: Forecast
    trial: str = ""
    records: int = 0
    begun: int = 0

    def on_start(self, trial: Trial) -> None:
        """A trial begins."""
        self.trial, self.begun = trial.id, self.begun + 1
        print(f"{_now()} {trial.id} begins", flush=True)

    def on_record(self, record: Record) -> None:
        """A trial has its record."""
        self.trial, self.records = "", self.records + 1
        self.forecast.learn(record.config, record.seconds)
        print(f"{_now()} {record.trial} {record.status} {record.reason}".rstrip(), flush=True)


@dataclass
class Laboratory:
    """One laboratory in one allocation."""

    folder: StudyFolder
    submission: Submission
    modules: Path | None
    end: float  # of the allocation, seconds since 1970; infinite if nobody knows
    stop: Stop = field(default_factory=Stop)

    def work(self) -> LastWord:
        """Run trials of the shape; why it left."""
        self._notes = Notebook(Forecast())
        try:
            self._run()
        except TimeIsUp:
            return self._word("limit")
        except Terminated:
            return self._word("limit" if time.time() >= self.end else "signal")
        except SteplabError as fault:
            return self._word("fault", str(fault))
        return self._word("limit" if self.stop.asked else "done")

    def _word(self, why: str, text: str = "") -> LastWord:
        return LastWord(why=why, text=text, trial=self._notes.trial, records=self._notes.records)

    def _run(self) -> None:
        study = read_study(self.folder.study, self.folder.read)
        own_code = replace(read_own_code(self.folder), folder=self.modules)  # as it was when the jobs were submitted
        trials = self._trials(plan(study, own_code))
        if not len(trials):
            return
        self._notes.forecast = Forecast.of(self.folder, trials)
        _check_environments(trials)
        campaign = Campaign(
            study, trials, self.folder, self.modules, self._notes, cluster=Allocation(), submission=self.submission.id,
            admits=self._in_time, own_code=own_code,
        )  # fmt: skip
        campaign.run(self.stop)

    def _trials(self, every: Plan) -> Plan:
        gpus = self.submission.shape.gpus_per_node
        mine = {trial for trial, shape in shapes(every, gpus).items() if shape == self.submission.shape}
        return every.selected(mine & set(self.submission.trials) if self.submission.trials else mine)

    def _in_time(self, trial: PlannedTrial) -> bool:
        """Whether a trial will end before the allocation does. The first may always try: no later job has more time."""
        left = self.end - LEAVE_S - time.time()
        return not self._notes.begun or self._notes.forecast.seconds(trial.config) < left


def _check_environments(trials: Plan) -> None:
    """Say which framework's environment is missing on this node: better now than in every record."""
    for row in trials.configurations.distinct(("framework", "environment")).first:
        resolved = trials.resolved(int(row))
        registry.find(resolved.framework, resolved.environment)


def listen(laboratory: Laboratory, warning_s: float) -> None:
    """Let Slurm's signals end the laboratory, in good order where there is time."""

    def warned(number: int, frame: FrameType | None) -> None:
        laboratory.stop.asked = True
        # Slurm may warn up to a minute too early: where its own word on the end is known, that counts.
        left = laboratory.end - time.time() if math.isfinite(laboratory.end) else warning_s
        signal.setitimer(signal.ITIMER_REAL, max(0.1, left - LEAVE_S))

    signal.signal(signal.SIGUSR1, warned)
    signal.signal(signal.SIGALRM, _raising(TimeIsUp))
    signal.signal(signal.SIGTERM, _raising(Terminated))


def _raising(kind: type[BaseException]) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        for other in (signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM):
            signal.signal(other, signal.SIG_IGN)  # one end is enough
        raise kind

    return handle


def end_of_allocation() -> float:
    """When the allocation ends, in seconds since 1970; infinite if Slurm does not say."""
    told = os.environ.get("SLURM_JOB_END_TIME", "")
    if told.isdigit():
        return float(told)
    number = os.environ.get("SLURM_JOB_ID", "")
    try:
        return datetime.fromisoformat(commands.end_of_job(number)).timestamp() if number else float("inf")
    except ValueError:
        return float("inf")


def _now() -> str:
    return datetime.now().isoformat(timespec="seconds")


def main(arguments: list[str] | None = None) -> int:
    """Be the laboratory of a submission."""
    parser = argparse.ArgumentParser(description="The laboratory inside a Slurm allocation; started by its job.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("submission")
    parser.add_argument("--modules", type=Path)
    parser.add_argument("--warning", type=float, default=60.0)
    given = parser.parse_args(arguments)
    folder = StudyFolder(given.folder)
    ledger = Ledger(folder)
    submission = ledger.submission(given.submission)
    if submission is None:
        print(f"{folder.root} does not have the submission {given.submission}: is it shared with this node?")
        return 1
    if ledger.cancelled or ledger.end(submission.id):
        print("this job is no longer wanted")
        return 0
    laboratory = Laboratory(folder, submission, given.modules, end_of_allocation())
    listen(laboratory, given.warning)
    word = laboratory.work()
    ledger.note_last_word(submission.id, word)
    print(f"{_now()} left: {word.why} {word.text}".rstrip(), flush=True)
    return 1 if word.why == "fault" else 0


if __name__ == "__main__":
    sys.exit(main())
