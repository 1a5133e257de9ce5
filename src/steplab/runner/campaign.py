"""A campaign: the trials of a study, run or resumed; each ends as a record, whatever happens."""

from __future__ import annotations

import datetime
import os
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from steplab import __version__
from steplab.core.errors import StudyError
from steplab.core.record import Attempt, DataInfo, EnvironmentInfo, Rank, Record, Variables
from steplab.core.record_parts import MachineInfo, MeasureInfo, ResolvedInfo
from steplab.core.resolution import Resolved
from steplab.core.trial import Trial
from steplab.design.plan import Plan, PlannedTrial
from steplab.runner.data import datasets
from steplab.runner.instruments import surroundings
from steplab.runner.interrupts import Stop
from steplab.runner.jobs import group_key, reads_data, trial_job
from steplab.runner.observer import Observer
from steplab.runner.ranks.conversation import Conversation, Failure, Outcome
from steplab.runner.ranks.group import RankGroup
from steplab.runner.ranks.pool import Pool
from steplab.runner.ranks.rank_record import rank_part
from steplab.store import checkpoints, records
from steplab.store.claims import Claims
from steplab.store.paths import StudyFolder
from steplab.study.file import read_study
from steplab.study.sections import Study
from steplab_worker.messages import AmbientVariables, Hello

START_DEADLINE_S = 180.0  # at most
SHORTEST_START_S = 60.0  # a framework may take that long to be imported on a busy machine, however short its trials
RETRIED = ("failed", "crashed", "killed")
POLL_S = 0.5


@dataclass
class Campaign:
    """One laboratory at work on one study's folder."""

    study: Study
    trials: Plan
    folder: StudyFolder
    modules: Path | None = None  # where the study's own networks are
    observer: Observer = field(default_factory=Observer)

    def run(self, stop: Stop, limit: int | None = None) -> None:
        """Run what has no record yet, at most `limit` trials."""
        self._sources: dict[str, datasets.DataSource] = {}
        self._pool = Pool([str(self.modules)] if self.modules else [])
        self._claims = Claims(self.folder, self._patience_s())
        checkpoints.sweep(self.folder)
        try:
            for number, trial in enumerate(self._open_trials(stop)):
                self._run_one(trial)
                if stop.asked or (limit is not None and number + 1 >= limit):
                    break
            self._pool.close()
        except BaseException:
            self._pool.kill()
            raise

    def _patience_s(self) -> float:
        """How long one trial can take at most, retries and starts included."""
        measure = self.study.measure
        attempt_s = self.study.kind.deadlines * measure.timeout_s + start_deadline_s(measure.timeout_s) + 10
        return (measure.retries + 1) * attempt_s

    def _open_trials(self, stop: Stop) -> Iterator[PlannedTrial]:
        """Trials without a record that nobody else is at; waits for others' trials at the end, in case they fail to."""
        waiting: Iterable[PlannedTrial] = self.trials.without(records.done(self.folder))
        while waiting and not stop.asked:
            claimed = []
            for trial in waiting:
                # Looked at again, because another laboratory may have finished it since.
                if self.folder.has(self.folder.record(trial.id)):
                    continue
                if not self._claims.take(trial.id):
                    claimed.append(trial)
                    continue
                try:
                    if not self.folder.has(self.folder.record(trial.id)):
                        yield trial
                finally:
                    self._claims.release(trial.id)
            if claimed and waiting is not claimed:
                self.observer.on_wait(claimed[0], self._claims.holder(claimed[0].id))
            waiting = claimed
            if waiting:
                time.sleep(POLL_S)
                self.observer.on_tick()

    def _run_one(self, trial: PlannedTrial) -> None:
        self.observer.on_start(trial)
        record = self._measured(trial)
        if records.write_record(self.folder, record):
            self.observer.on_record(record)
        if record.status == "ok":
            checkpoints.forget(self.folder, trial.id)

    def _measured(self, trial: PlannedTrial) -> Record:
        """The trial's record, after as many attempts as it is worth."""
        attempts: list[Attempt] = []
        while True:
            attempt = _Attempt(self, trial)
            outcome = attempt.outcome()
            failure = outcome.failure
            seconds = time.monotonic() - attempt.started
            if failure is None or failure.status not in RETRIED or len(attempts) >= self.study.measure.retries:
                return attempt.record(outcome, attempts, seconds)
            attempts.append(Attempt(status=failure.status, reason=failure.reason, seconds=seconds))

    def source(self, resolved: Resolved) -> datasets.DataSource | None:
        """The data files of a trial, made or found once."""
        if not reads_data(resolved):
            return None
        if resolved.dataset not in self._sources:
            self._sources[resolved.dataset] = datasets.provide(resolved.dataset, self.study.data.samples)
        return self._sources[resolved.dataset]

    def outcome(self, trial: PlannedTrial, attempt: _Attempt) -> Outcome:
        """Run a trial once on a warm or fresh group."""
        measure, key = self.study.measure, group_key(attempt.resolved)
        block = trial.replicate if measure.isolation == "warm" else object()
        group = self._pool.group(key, block, start_deadline_s(measure.timeout_s), self.observer.on_tick)
        if isinstance(group, Failure):
            return Outcome(failure=group)
        attempt.met(group)
        conversation = Conversation(group, time.monotonic() + measure.timeout_s, self.observer.on_tick)
        job = trial_job(self.study, trial, attempt.source, self.folder.checkpoint(trial.id))
        outcome = conversation.trial(job, attempt.director)
        attempt.parted()
        if outcome.failure is not None:
            self._pool.discard(key)
        else:
            attempt.log_tail = "".join(group.tail(rank) for rank in range(key.processes))[-4000:]
            group.forget_logs()
        return outcome


class _Attempt:
    """One attempt at a trial, and what its record says beside the times."""

    def __init__(self, campaign: Campaign, trial: PlannedTrial) -> None:
        self.campaign, self.trial = campaign, trial
        self.resolved = trial.resolved
        self.started, self.began = time.monotonic(), datetime.datetime.now(datetime.UTC)
        self.seen = surroundings.NOTHING
        self.versions: dict[str, str] = {}
        self.variables: dict[int, AmbientVariables] = {}
        self.environment: EnvironmentInfo | None = None
        self.hello: dict[int, Hello] = {}
        self.log_tail = ""
        self.source: datasets.DataSource | None = None
        self.director = campaign.study.kind.director(self.resolved, self._tell)

    def _tell(self, news: str) -> None:
        self.campaign.observer.on_progress(self.trial, news)

    def met(self, group: RankGroup) -> None:
        """Note what the group is."""
        made = group.environment
        self.environment = EnvironmentInfo(name=made.name, python=str(made.python), lock=list(made.lock))
        self.versions, self.variables, self.hello = group.versions, group.variables, group.hello
        self.started = time.monotonic()
        self._watch = surroundings.watch(group) if self.source else None

    def parted(self) -> None:
        """Note what happened around the trial."""
        self.seen = self._watch.end() if self._watch else surroundings.NOTHING

    def outcome(self) -> Outcome:
        """Run it, unless the framework cannot."""
        reason = self.campaign.study.kind.unsupported(self.resolved)
        if reason:
            return Outcome(failure=Failure("unsupported", reason, 0))
        self.source = self.campaign.source(self.resolved)
        return self.campaign.outcome(self.trial, self)

    def _machine(self, failure: Failure | None) -> MachineInfo:
        """As a rank described it; nothing is known where none came so far."""
        told = self.hello[0].machine if self.hello else failure.machine if failure else None
        return MachineInfo.model_validate(asdict(told)) if told else MachineInfo()

    def record(self, outcome: Outcome, attempts: list[Attempt], seconds: float) -> Record:
        """The record of this, the last, attempt."""
        study, failure = self.campaign.study, outcome.failure
        seen, findings = self.seen, self.director.findings()
        ranks = [self._rank(outcome, rank) for rank in sorted(outcome.results)]
        methods = outcome.results[0].measurement.methods if ranks else {}
        return Record(
            study=study.about.name,
            trial=self.trial.id,
            replicate=self.trial.replicate,
            kind=study.about.kind,
            status=failure.status if failure else "ok",
            reason=failure.reason if failure else "; ".join(findings.notes),
            log_tail=failure.log_tail[-4000:] if failure else self.log_tail,
            attempts=attempts,
            config=dict(self.trial.config),
            resolved=ResolvedInfo.model_validate(asdict(self.resolved)),
            measure=self._measure(),
            ranks=ranks,
            threads=self.resolved.threads,
            versions={"steplab": __version__} | self.versions | methods,
            variables=[_variables(ambient) for _, ambient in sorted(self.variables.items())],
            machine=self._machine(failure),
            environment=self.environment,
            data=_data_info(self.resolved, self.source),
            epochs=list(findings.epochs),
            target_accuracy=findings.target_accuracy,
            energy=seen.energy(sum(rank.cpu_s for rank in ranks), study.measure.watts_per_cpu if ranks else None),
            other_cpu_s=seen.other_cpu_s if ranks else None,
            throttled=seen.throttled,
            started=self.began.isoformat(timespec="milliseconds"),
            seconds=seconds,
            command=repeat_command(self.campaign.folder, self.trial, self.campaign.modules),
        )

    def _measure(self) -> MeasureInfo:
        study = self.campaign.study
        return MeasureInfo.model_validate(study.measure.model_dump() | study.section.model_dump())

    def _rank(self, outcome: Outcome, rank: int) -> Rank:
        offset = outcome.clock_offsets_s[rank]
        return rank_part(self.hello[rank], outcome.results[rank], offset, self.seen.gpus.get(rank))


def start_deadline_s(timeout_s: float) -> float:
    """How long ranks may take until they are ready: as long as their trial, within limits.

    >>> start_deadline_s(5), start_deadline_s(100), start_deadline_s(3600)
    (60.0, 100.0, 180.0)
    """
    return float(min(START_DEADLINE_S, max(SHORTEST_START_S, timeout_s)))


def repeat_command(folder: StudyFolder, trial: Trial, modules: Path | None = None) -> str:
    """The command that runs one trial again, into a folder of its own."""
    root = folder.root.absolute()
    again = root.with_name(f"{root.name}-repeat")
    own = ["--modules", str(modules)] if modules else []
    return shlex.join(["steplab", "run", str(folder.study.absolute()), "--trial", trial.id, "--out", str(again), *own])


def _variables(ambient: AmbientVariables) -> Variables:
    """What a rank saw; what it does not have from the laboratory's own surroundings, steplab has set."""
    ours = {name for name, value in ambient.seen.items() if os.environ.get(name) != value}
    return Variables(seen=ambient.seen, own=sorted(ours | set(ambient.own)))


def _data_info(resolved: Resolved, source: datasets.DataSource | None) -> DataInfo:
    if source is None:
        return DataInfo(name=resolved.dataset, source="none", samples=0)
    return DataInfo(name=source.name, source=source.source, samples=source.samples, folder=str(source.folder))


def check_folder(folder: StudyFolder, study: Study) -> None:
    """A folder keeps one protocol: records measured otherwise must not be mixed."""
    folder.must_hold_no_links()
    if not folder.has(folder.study) or not records.done(folder):
        return
    earlier = read_study(folder.study, folder.read)
    if earlier.protocol != study.protocol:
        what = "the folder holds trials of another kind or measurement protocol"
        raise StudyError(what, where=str(folder.root), hint="give another folder with --out, or restore [measure]")
