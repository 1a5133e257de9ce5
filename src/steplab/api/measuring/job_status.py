"""Where the jobs of a study on a cluster stand: queued, running, done or lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from steplab.core.errors import EnvironmentFault
from steplab.core.files import real
from steplab.runner.slurm import commands
from steplab.runner.slurm.commands import Job
from steplab.runner.slurm.script import job_name
from steplab.runner.slurm.settlement import ended_as
from steplab.runner.slurm.states import is_live, is_queued
from steplab.store.paths import StudyFolder
from steplab.store.submissions import Ledger, Submission

JobState = Literal["queued", "running", "done", "lost", "unknown"]


@dataclass(frozen=True)
class JobStatus:
    """A job of a study: where it stands, and what Slurm or the laboratory in it says of that."""

    submission: str
    job: str  # its number; empty if Slurm gave none
    shape: str
    state: JobState
    detail: str


def job_statuses(folder: StudyFolder) -> tuple[JobStatus, ...]:
    """Where the jobs of a study stand; none if nothing was submitted."""
    ledger = Ledger(StudyFolder(real(folder.root)))
    entries = ledger.submissions()
    queue = _queue() if entries else None
    return tuple(_status(ledger, entry, queue) for entry in entries)


def _queue() -> Mapping[str, Job] | None:
    """This user's jobs by name; None where Slurm cannot be asked."""
    try:
        return {job.name: job for job in commands.queue()}
    except EnvironmentFault:
        return None


def _status(ledger: Ledger, entry: Submission, queue: Mapping[str, Job] | None) -> JobStatus:
    job = (queue or {}).get(job_name(ledger.folder, entry.shape, entry.id))
    state, detail = _stand(ledger, entry, job, queue is not None)
    number = ledger.number(entry.id) or (job.number if job else "")
    return JobStatus(entry.id, number, str(entry.shape), state, detail)


def _stand(ledger: Ledger, entry: Submission, job: Job | None, asked: bool) -> tuple[JobState, str]:
    word, end = ledger.last_word(entry.id), ledger.end(entry.id)
    if end is not None:
        good = word is not None and word.why in ("done", "limit") and not word.trial
        return ("done" if good else "lost"), end.reason
    if job is not None and is_live(job.state):
        return ("queued", job.reason) if is_queued(job.state) else ("running", f"on {job.nodes}")
    if word is not None:
        return "done" if not word.trial else "lost", ended_as(job.state if job else "", word).words
    if not asked:
        return "unknown", "Slurm cannot be asked on this machine"
    return "lost", ended_as(job.state if job else "", None).words
