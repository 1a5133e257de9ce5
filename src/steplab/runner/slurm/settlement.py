"""What became of jobs: which are alive, how the others ended, and which trials they took down with them.

Everything is found in the queue by the names that jobs were given, so it does not matter whether the laboratory that
submitted them lived to hear Slurm's answer. A job is settled in an order that can be repeated: losses, claims, end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from steplab.core.errors import EnvironmentFault
from steplab.runner.slurm import commands
from steplab.runner.slurm.commands import Job
from steplab.runner.slurm.script import job_name
from steplab.runner.slurm.states import NEVER, Meaning, is_live, meaning
from steplab.store import claims
from steplab.store.submissions import JobEnd, LastWord, Ledger, Loss, Submission

GRACE_S = 15.0  # so long a job that Slurm was asked for may still appear in its queue


@dataclass(frozen=True)
class Settled:
    """A job that has ended, and the trials that it took down with it."""

    submission: Submission
    end: JobEnd
    word: LastWord | None
    lost: tuple[str, ...]

    @property
    def in_vain(self) -> bool:
        """Whether nothing came of it, not even a lost trial."""
        return not self.lost and (self.word is None or not self.word.records)


@dataclass
class Bookkeeper:
    """Follows the jobs of one study's folder."""

    ledger: Ledger
    since: float = field(default_factory=time.time)
    live: dict[str, Job] = field(default_factory=dict)  # by submission
    _ended: set[str] = field(default_factory=set)

    def look(self) -> list[Settled]:
        """Ask Slurm once; the jobs that have ended since."""
        jobs = {job.name: job for job in commands.queue()}
        open_ = [entry for entry in self.ledger.submissions() if not self._has_ended(entry.id)]
        named = {entry.id: jobs.get(job_name(self.ledger.folder, entry.shape, entry.id)) for entry in open_}
        self._attach(named)
        self.live = {name: job for name, job in named.items() if job and is_live(job.state)}
        ended = [entry for entry in open_ if entry.id not in self.live]
        states = self._states(ended, named)
        held = list(claims.submitted_claims(self.ledger.folder)) if states else []
        return [self._settle(entry, states[entry.id], held) for entry in ended if entry.id in states]

    def _has_ended(self, name: str) -> bool:
        if name not in self._ended and self.ledger.end(name):
            self._ended.add(name)
        return name in self._ended

    def _attach(self, named: Mapping[str, Job | None]) -> None:
        """Note the numbers of jobs whose laboratory died before it could."""
        for name, job in named.items():
            if job and not self.ledger.number(name):
                self.ledger.note_number(name, job.number)

    def _states(self, ended: list[Submission], named: Mapping[str, Job | None]) -> dict[str, JobEnd]:
        """How jobs that are not alive ended; without those that Slurm may not have got yet."""
        ends: dict[str, JobEnd] = {}
        numbers = {entry.id: self.ledger.number(entry.id) for entry in ended}
        kept = commands.accounts([number for name, number in numbers.items() if number and not named[name]])
        for entry in ended:
            job, number = named[entry.id], numbers[entry.id]
            if job is None and not number:
                if abs(time.time() - max(entry.created, self.since)) < GRACE_S:
                    self.live[entry.id] = Job("", "", "PENDING", reason="being submitted")
                else:
                    ends[entry.id] = JobEnd(state="", reason=NEVER, at=time.time())
                continue
            state = job.state if job else kept.get(number, "")
            ends[entry.id] = self._end(entry, number, "" if is_live(state) else state)
        return ends

    def _end(self, entry: Submission, number: str, state: str) -> JobEnd:
        means = ended_as(state, self.ledger.last_word(entry.id))
        return JobEnd(state=state, reason=f"job {number} {means.words}", at=time.time())

    def _settle(self, entry: Submission, end: JobEnd, held: list[tuple[str, str]]) -> Settled:
        """Note which trials a job took down with it, free them, and note its end."""
        word = self.ledger.last_word(entry.id)
        status = ended_as(end.state, word).status
        at_work = {trial for trial, name in held if name == entry.id}
        unfinished = {*at_work, *([word.trial] if word and word.trial else [])}
        folder = self.ledger.folder
        lost = sorted(trial for trial in unfinished if not folder.has(folder.record(trial)))
        for trial in () if self.ledger.cancelled else lost:
            self.ledger.note_loss(trial, entry.id, Loss(status=status, reason=end.reason, at=end.at))
        for trial in at_work:
            claims.release(folder, trial)
        self.ledger.note_end(entry.id, end)
        return Settled(entry, end, word, tuple(lost))


def ended_as(state: str, word: LastWord | None) -> Meaning:
    """What a job's end means, by Slurm's state and the last word of the laboratory inside.

    >>> ended_as("COMPLETED", LastWord(why="limit", trial="0123456789abcdef")).words
    'reached its time limit'
    >>> ended_as("", LastWord(why="signal")).words
    'was ended by Slurm: cancelled or preempted'
    """
    if word is None or (word.why == "signal" and state not in ("", "COMPLETED")):
        return meaning(state)
    if word.why == "limit":
        return Meaning("timeout", "reached its time limit")
    if word.why == "signal":
        return Meaning("killed", "was ended by Slurm: cancelled or preempted")
    return Meaning("failed", "ended in good order" if word.why == "done" else f"could not work: {word.text}")


def cancel_jobs(ledger: Ledger, prefix: str, patience_s: float) -> list[str]:
    """End all jobs of a folder, also those of which the ledger does not know; their numbers."""
    cancelled: set[str] = set()
    deadline = time.monotonic() + patience_s
    while True:
        jobs = [job for job in commands.queue() if job.name.startswith(prefix) and is_live(job.state)]
        commands.cancel([job.number for job in jobs])
        cancelled.update(job.number for job in jobs)
        if not jobs and not _being_submitted(ledger):
            return sorted(cancelled, key=int)
        if time.monotonic() > deadline:
            left = ", ".join(job.number for job in jobs) or "a job that is being submitted"
            raise EnvironmentFault(f"Slurm has not ended {left} within {patience_s:.0f} s; call `steplab cancel` again")
        time.sleep(0.5)


def _being_submitted(ledger: Ledger) -> bool:
    """Whether Slurm may get a job in this moment."""
    young = (entry for entry in ledger.submissions() if abs(time.time() - entry.created) < GRACE_S)
    return any(not ledger.number(entry.id) and not ledger.end(entry.id) for entry in young)
