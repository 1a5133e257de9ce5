"""The executor `slurm`: jobs for each shape of open trials, submitted, followed, and submitted again where need be.

It may be closed and called again at any moment: what it knows is in the study's folder and in Slurm's queue.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from steplab.core.errors import EnvironmentFault, InputError
from steplab.core.own_code import NO_CODE, OwnCode
from steplab.core.record import Attempt
from steplab.design.plan import Plan
from steplab.runner.attempt import Stopwatch, not_run
from steplab.runner.interrupts import Stop
from steplab.runner.observer import Observer
from steplab.runner.ranks.conversation import Failure
from steplab.runner.slurm import commands
from steplab.runner.slurm.script import Batch
from steplab.runner.slurm.settlement import Bookkeeper, Settled
from steplab.runner.slurm.shapes import shapes
from steplab.runner.slurm.states import is_queued
from steplab.runner.trial_record import repeat_command, trial_record
from steplab.store import records
from steplab.store.claims import Claims
from steplab.store.paths import StudyFolder
from steplab.store.submissions import JobEnd, Ledger, Loss, Shape, Submission
from steplab.study.sections import Study
from steplab.study.slurm_settings import SlurmSettings

NAME = "slurm"
LEASE = "submitter"  # the name of the claim on submitting
LEASE_S = 120.0
SILENCE_S = 900.0  # so long Slurm's controller may be away
MOST_IN_VAIN = 3  # jobs in a row of one shape of which nothing came
SLICE_S = 0.2


@dataclass
class SlurmCampaign:
    """One laboratory that submits the trials of a study, and follows its jobs."""

    study: Study
    trials: Plan
    folder: StudyFolder
    settings: SlurmSettings
    modules: Path | None = None
    observer: Observer = field(default_factory=Observer)
    partial: bool = False  # whether the plan is a part of the study, which jobs must be told
    own_code: OwnCode = NO_CODE

    def run(self, stop: Stop, limit: int | None = None, *, detach: bool = False) -> None:
        """Submit what has no record yet, at most `limit` trials, and follow it to its end; or only submit it."""
        require_commands()
        self._detach = detach
        self._limit(limit)
        self._tell_setup()
        self._renew()
        try:
            self.ledger.go_on()
            while self._round() and not detach and not self._pause(stop):
                self._renew()
        finally:
            self._lease.release(LEASE)

    @cached_property
    def ledger(self) -> Ledger:
        """What was submitted."""
        return Ledger(self.folder)

    @cached_property
    def _books(self) -> Bookkeeper:
        return Bookkeeper(self.ledger)

    @cached_property
    def _lease(self) -> Claims:
        return Claims(self.folder, LEASE_S)

    def _limit(self, limit: int | None) -> None:
        self._seen = records.done(self.folder)
        if limit is not None:
            first = islice(self.trials.without(self._seen), limit)
            self.trials, self.partial = self.trials.selected([trial.id for trial in first]), True
        self._shapes: Mapping[str, Shape] = shapes(self.trials, self.settings.gpus or 0)
        self._vain: Counter[Shape] = Counter()
        self._heard = time.monotonic()

    def _tell_setup(self) -> None:
        """A study that runs commands of its own is worth a word before it does."""
        own = self.study.executors.get(NAME)
        if isinstance(own, SlurmSettings) and own.setup:
            self.observer.on_note(f"{self.study.path}: its jobs run the study's own setup: {'; '.join(own.setup)}")

    def _renew(self) -> None:
        """Submitting is one laboratory's affair: two would submit everything twice."""
        if not self._lease.take(LEASE):
            what = f"another laboratory submits this study's jobs ({self._lease.holder(LEASE)})"
            raise InputError(what, where=str(self.folder.root), hint="`steplab status` shows them")

    def _round(self) -> bool:
        """Look, settle, submit; False if nothing is left to do."""
        try:
            ended = self._books.look()
        except commands.SlurmSilent as silence:
            return self._wait_for(silence)
        self._heard = time.monotonic()
        self._tell_records()
        self._write_lost()
        for settled in ended:
            self._tell_end(settled)
        open_ = self._open()
        self._judge(ended, open_)
        if self.ledger.cancelled:
            raise InputError("the study's jobs were cancelled", where=str(self.folder.root))
        self._drop_needless(open_)
        self._submit(open_)
        self.observer.on_jobs(self._told())
        return bool(open_ or self._books.live)

    def _wait_for(self, silence: commands.SlurmSilent) -> bool:
        # Who leaves at once must not take it that the jobs are submitted.
        if self._detach or time.monotonic() - self._heard > SILENCE_S:
            raise silence
        self.observer.on_jobs(str(silence))
        return True

    def _open(self) -> Counter[Shape]:
        """How many trials of each shape have no record."""
        return Counter(shape for trial, shape in self._shapes.items() if trial not in self._seen)

    def _tell_records(self) -> None:
        done = records.done(self.folder)
        for trial in sorted(done - self._seen):
            if trial in self._shapes:
                self.observer.on_record(records.read_record(self.folder, trial))
        self._seen = done

    def _tell_end(self, settled: Settled) -> None:
        if settled.lost:
            trials = ", ".join(settled.lost)
            self.observer.on_note(f"{settled.end.reason} while it ran {trials}; what is unfinished runs again")
        elif settled.in_vain and settled.end.state not in ("COMPLETED", "CANCELLED"):
            self.observer.on_note(settled.end.reason)

    def _write_lost(self) -> None:
        """A trial that took its allocation down each time becomes a record with Slurm's reason."""
        for trial, losses in self.ledger.losses().items():
            if trial in self._shapes and trial not in self._seen and len(losses) > self.settings.retries:
                self._write_failure(trial, losses)
        self._tell_records()

    def _write_failure(self, name: str, losses: list[Loss]) -> None:
        (trial,) = self.trials.selected([name])
        *before, last = losses
        director = self.study.kind.director(trial.resolved, lambda news: None)
        measured = not_run(Failure(last.status, last.reason, 0), director, Stopwatch.now())
        attempts = [Attempt(status=loss.status, reason=loss.reason, seconds=0.0) for loss in before]
        command = repeat_command(self.folder, trial, self.modules)
        record = trial_record(self.study, trial, measured, attempts, command)
        records.write_record(self.folder, record.model_copy(update={"own_code": self.own_code.parts(trial.config)}))

    def _judge(self, ended: list[Settled], open_: Counter[Shape]) -> None:
        """Do not submit for ever what cannot work."""
        for settled in ended:
            if settled.word and settled.word.why == "fault":
                raise EnvironmentFault(settled.end.reason)
            shape = settled.submission.shape
            wanted = open_[shape] and settled.end.state and not self.ledger.cancelled
            self._vain[shape] = self._vain[shape] + 1 if settled.in_vain and wanted else 0
            if self._vain[shape] >= MOST_IN_VAIN:
                raise EnvironmentFault(self._hopeless(settled))

    def _hopeless(self, settled: Settled) -> str:
        name = settled.submission.id
        printed = self.ledger.last_line(name)
        trace = f": {printed}" if printed else f" and printed nothing (is {self.folder.root} shared with the nodes?)"
        return (
            f"{settled.end.reason} before it measured anything, as others before it{trace}; see {self.ledger.log(name)}"
        )

    def _drop_needless(self, open_: Counter[Shape]) -> None:
        """End jobs that wait for trials which others have done meanwhile."""
        live = self._books.live
        wanted = {shape for shape, count in open_.items() if count}
        waiting = {name: job for name, job in live.items() if is_queued(job.state)}
        needless = [job.number for name, job in waiting.items() if self._shape(name) not in wanted]
        commands.cancel([number for number in needless if number])

    def _shape(self, name: str) -> Shape | None:
        entry = self.ledger.submission(name)
        return entry.shape if entry else None

    def _submit(self, open_: Counter[Shape]) -> None:
        live = Counter(self._shape(name) for name in self._books.live)
        room = self.settings.jobs - live.total()
        for shape in islice(_in_turn(open_, live), max(0, room)):
            self._submit_one(shape)

    def _submit_one(self, shape: Shape) -> None:
        """Ask Slurm for a job; what it is asked is noted before, its answer after."""
        mine = [name for name, own in self._shapes.items() if own == shape] if self.partial else []
        entry = Submission(id=secrets.token_hex(5), shape=shape, created=time.time(), trials=mine)
        self.ledger.open(entry)
        try:
            number = commands.submit(self._batch.script(entry))
        except commands.SlurmSilent:
            return  # it may have heard: the queue will tell
        except EnvironmentFault:
            self.ledger.note_end(entry.id, _refused())
            raise
        self.ledger.note_number(entry.id, number)
        self._books.live[entry.id] = commands.Job(number, "", "PENDING", reason="just submitted")

    @cached_property
    def _batch(self) -> Batch:
        return Batch(self.folder, self.settings, self.modules)

    def _told(self) -> str:
        """How many jobs wait and why, and where the others work."""
        queued = [job for job in self._books.live.values() if is_queued(job.state)]
        reasons = ", ".join(sorted({job.reason for job in queued if job.reason not in ("", "None")}))
        running = [job for job in self._books.live.values() if not is_queued(job.state)]
        nodes = ", ".join(sorted(job.nodes for job in running))
        waiting = f"{len(queued)} jobs wait" + (f" ({reasons})" if reasons else "")
        return f"{waiting}, {len(running)} run" + (f" on {nodes}" if nodes else "")

    def _pause(self, stop: Stop) -> bool:
        """Wait until it is time to look again; whether somebody wants to leave."""
        until = time.monotonic() + self.settings.poll_s
        while not stop.asked and time.monotonic() < until:
            time.sleep(min(SLICE_S, self.settings.poll_s))
            self.observer.on_tick()
        return stop.asked


def _refused() -> JobEnd:
    return JobEnd(state="", reason="was refused by Slurm", at=time.time())


def _in_turn(open_: Mapping[Shape, int], live: Mapping[Shape | None, int]) -> Iterator[Shape]:
    """Shapes that more jobs would help, each in its turn, the one with most trials first.

    >>> small, large = (Shape(nodes=n, ranks_per_node=1, cpus_per_rank=1) for n in (1, 2))
    >>> [str(shape) for shape in _in_turn({small: 2, large: 9}, {large: 8})]
    ['n2r1c1', 'n1r1c1', 'n1r1c1']
    """
    wanted = {shape: count - live.get(shape, 0) for shape, count in open_.items()}
    while any(count > 0 for count in wanted.values()):
        for shape in sorted(wanted, key=lambda shape: (-open_[shape], str(shape))):
            if wanted[shape] > 0:
                wanted[shape] -= 1
                yield shape


def require_commands() -> None:
    """Say which of Slurm's commands are missing."""
    missing = commands.missing()
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        raise EnvironmentFault(f"there is no {names} here; the executor slurm needs Slurm's commands on this machine")
