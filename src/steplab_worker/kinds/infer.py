"""Trials of kind `infer`."""

from __future__ import annotations

from steplab_worker import loop
from steplab_worker.adapter import Session
from steplab_worker.channel import Document
from steplab_worker.job import TrialJob


def run(job: TrialJob, session: Session, ask: loop.Ask, rank: int) -> Document:
    """Run one trial as the laboratory directs; its raw times by mode."""
    return loop.measure(job, session, ask)
