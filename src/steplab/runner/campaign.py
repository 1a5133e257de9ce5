"""A campaign: the trials of a study, run or resumed; each ends as a record, whatever happens."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from steplab.core.errors import EnvironmentFault, StudyError
from steplab.core.own_code import NO_CODE, OwnCode, is_own
from steplab.core.record import Attempt, Choice, Record
from steplab.core.resolution import Resolved, data_spec
from steplab.design.plan import Plan, PlannedTrial
from steplab.runner.attempt import Measured, Stopwatch, Task, attempt, not_run
from steplab.runner.cluster import Cluster, ThisMachine
from steplab.runner.data import datasets
from steplab.runner.interrupts import Stop
from steplab.runner.jobs import group_key, reads_data, trial_job
from steplab.runner.observer import Observer
from steplab.runner.ranks.conversation import Failure
from steplab.runner.ranks.group import RankGroup
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.pool import Pool
from steplab.runner.trial_record import repeat_command, trial_record
from steplab.store import checkpoints, records
from steplab.store.choices import choice_of
from steplab.store.claims import Claims, Crowd
from steplab.store.paths import StudyFolder
from steplab.study.file import read_study
from steplab.study.sections import Study

START_DEADLINE_S = 180.0  # at most
SHORTEST_START_S = 60.0  # a framework may take that long to be imported on a busy machine, however short its trials
RETRIED = ("failed", "crashed", "killed")
POLL_S = 0.5


class Groups(Protocol):
    """Where a campaign has its ranks from: a pool, or what tests put in its place."""

    def group(
        self, key: GroupKey, block: object, start_deadline_s: float, look_around: Callable[[], None]
    ) -> RankGroup | Failure:
        """The group for a key, ready; another block of the design gets fresh ones."""

    def discard(self, key: GroupKey) -> None:
        """Kill a group that failed."""

    def close(self) -> None:
        """End all groups."""

    def kill(self) -> None:
        """Kill all groups at once."""


@dataclass
class Campaign:
    """One laboratory at work on one study's folder."""

    study: Study
    trials: Plan
    folder: StudyFolder
    modules: Path | None = None  # where the study's own networks are
    observer: Observer = field(default_factory=Observer)
    groups: Groups | None = None  # a pool of its own unless given
    own_code: OwnCode = NO_CODE
    cluster: Cluster = field(default_factory=ThisMachine)  # where its own groups are
    submission: str = ""  # of a laboratory inside an allocation
    admits: Callable[[PlannedTrial], bool] | None = None  # whether there is time for a trial; without it, always
    more: Callable[[], Plan | None] | None = None  # of an adaptive design: what to run after these trials

    def run(self, stop: Stop, limit: int | None = None) -> None:
        """Run what has no record yet, at most `limit` trials."""
        self._sources: dict[str, datasets.DataSource] = {}
        self._pool = self.groups or Pool([str(self.modules)] if self.modules else [], self.cluster.locate)
        self._claims = Claims(self.folder, self._patience_s(), self.submission)
        checkpoints.sweep(self.folder)
        try:
            for number, trial in enumerate(self._all_trials(stop)):
                self._run_one(trial)
                if stop.asked or (limit is not None and number + 1 >= limit):
                    break
            self._pool.close()
        except BaseException:
            self._pool.kill()
            raise
        finally:
            self.cluster.close()

    def _all_trials(self, stop: Stop) -> Iterator[PlannedTrial]:
        """The trials, and those that are chosen after them."""
        yield from self._open_trials(stop)
        while self.more is not None and not stop.asked and (chosen := self.more()) is not None:
            self.trials = chosen
            yield from self._open_trials(stop)

    def _patience_s(self) -> float:
        """How long one trial can take at most, retries and starts included."""
        measure = self.study.measure
        attempt_s = self.study.kind.deadlines * measure.timeout_s + start_deadline_s(measure.timeout_s) + 10
        return (measure.retries + 1) * attempt_s

    def _open_trials(self, stop: Stop) -> Iterator[PlannedTrial]:
        """Trials without a record that nobody else is at; waits for others' trials at the end, in case they fail to."""
        if self.submission:
            yield from self._among_many(stop)
            return
        waiting: Iterable[PlannedTrial] = self.trials.without(records.done(self.folder))
        while waiting and not stop.asked:
            claimed: list[PlannedTrial] = []
            yield from self._claimed_trials(waiting, claimed.append)
            if claimed and waiting is not claimed:
                self.observer.on_wait(claimed[0], self._claims.holder(claimed[0].id))
            waiting = claimed
            if waiting:
                time.sleep(POLL_S)
                self.observer.on_tick()

    def _among_many(self, stop: Stop) -> Iterator[PlannedTrial]:
        """The trials of a laboratory inside an allocation, one of many: waits for nobody, who submitted it does."""
        crowd, numbered = Crowd(self.folder), list(self.trials.numbered())
        crowd.moved = True
        while crowd.moved and not stop.asked:
            trials = (self.trials.planned(replicate, row) for replicate, row, _ in crowd.open_trials(numbered))
            for trial in self._claimed_trials(trials, lambda trial: crowd.refused()):
                crowd.claimed()
                yield trial

    def _claimed_trials(
        self, trials: Iterable[PlannedTrial], refused: Callable[[PlannedTrial], None]
    ) -> Iterator[PlannedTrial]:
        """Those that can be claimed, each until the next is asked for; what others have claimed is refused."""
        for trial in trials:
            # Looked at again, because another laboratory may have finished it since.
            if self.folder.has(self.folder.record(trial.id)) or (self.admits and not self.admits(trial)):
                continue
            if not self._claims.take(trial.id):
                refused(trial)
                continue
            try:
                if not self.folder.has(self.folder.record(trial.id)):
                    yield trial
            finally:
                self._claims.release(trial.id)

    def _run_one(self, trial: PlannedTrial) -> None:
        self.own_code.expect_unchanged()
        self.observer.on_start(trial)
        record = self._measured(trial)
        if records.write_record(self.folder, record):
            self.observer.on_record(record)
        if record.status == "ok":
            checkpoints.forget(self.folder, trial.id)

    def _measured(self, trial: PlannedTrial) -> Record:
        """The trial's record, after as many attempts as it is worth."""
        failed: list[Attempt] = []
        while True:
            measured = self._attempt(trial)
            failure = measured.outcome.failure
            if failure is None or failure.status not in RETRIED or len(failed) >= self.study.measure.retries:
                command = repeat_command(self.folder, trial, self.modules)
                record = trial_record(self.study, trial, measured, failed, command)
                parts = {"own_code": self.own_code.parts(trial.config), "choice": self._choice(trial)}
                return record.model_copy(update=parts)
            failed.append(Attempt(status=failure.status, reason=failure.reason, seconds=measured.seconds))

    def _choice(self, trial: PlannedTrial) -> Choice | None:
        """Why the trial was chosen, if its design chooses."""
        return choice_of(self.folder, trial.id) if self.study.design.type == "adaptive" else None

    def _attempt(self, trial: PlannedTrial) -> Measured:
        """Run a trial once on a warm or fresh group, unless its framework cannot."""
        since, measure, key = Stopwatch.now(), self.study.measure, group_key(trial.resolved)
        director = self.study.kind.director(trial.resolved, partial(self.observer.on_progress, trial))
        reason = self.study.kind.unsupported(trial.resolved)
        if reason:
            return not_run(Failure("unsupported", reason, 0), director, since)
        source = self._source(trial.resolved)
        block = trial.replicate if measure.isolation == "warm" else object()
        group = self._pool.group(key, block, start_deadline_s(measure.timeout_s), self.observer.on_tick)
        if isinstance(group, Failure):
            return not_run(group, director, since, source)
        try:
            self.cluster.prepare(trial.resolved)
        except EnvironmentFault as fault:
            self._pool.discard(key)
            return not_run(Failure("failed", str(fault), 0), director, since, source)
        job = trial_job(self.study, trial, source, self.folder.checkpoint(trial.id))
        measured = attempt(group, Task(job, director, measure.timeout_s, source), self.observer.on_tick)
        if measured.outcome.failure is not None:
            self._pool.discard(key)
        return measured

    def _source(self, resolved: Resolved) -> datasets.DataSource | None:
        """The data files of a trial, made or found once."""
        if not reads_data(resolved):
            return None
        if is_own(resolved.dataset):
            return datasets.own(resolved.dataset, data_spec(resolved).train, self.modules)
        if resolved.dataset not in self._sources:
            self._sources[resolved.dataset] = datasets.provide(resolved.dataset, self.study.data.samples)
        return self._sources[resolved.dataset]


def start_deadline_s(timeout_s: float) -> float:
    """How long ranks may take until they are ready: as long as their trial, within limits.

    >>> start_deadline_s(5), start_deadline_s(100), start_deadline_s(3600)
    (60.0, 100.0, 180.0)
    """
    return float(min(START_DEADLINE_S, max(SHORTEST_START_S, timeout_s)))


def check_folder(folder: StudyFolder, study: Study) -> None:
    """A folder keeps one protocol: records measured otherwise must not be mixed."""
    folder.must_hold_no_links()
    if not folder.has(folder.study) or not records.done(folder):
        return
    earlier = read_study(folder.study, folder.read)
    changes = _changes(_by_section(earlier), _by_section(study))
    if changes:
        what = f"the folder holds trials of another kind or measurement protocol: {'; '.join(changes)}"
        raise StudyError(what, where=str(folder.root), hint="give another folder with --out, or change that back")


def _by_section(study: Study) -> dict[str, object]:
    """What must not change, by the sections of the study file that say it."""
    return {study.about.kind if name == "section" else name: value for name, value in study.protocol.items()}


def _changes(earlier: Mapping[str, object], now: Mapping[str, object], section: str = "") -> list[str]:
    """What is not the same in two protocols, field by field.

    >>> _changes({"kind": "step", "measure": {"phases": True}}, {"kind": "step", "measure": {"phases": False}})
    ['[measure] phases was true and is false']
    """
    changes = []
    for name in dict.fromkeys([*earlier, *now]):
        before, after = earlier.get(name), now.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            changes += _changes(before, after, f"[{name}] ")
        elif before != after:
            changes.append(f"{section}{name} was {_written(before)} and is {_written(after)}")
    return changes


def _written(value: object) -> str:
    """A field as a study file has it."""
    return "not set" if value is None else json.dumps(value, default=str)
