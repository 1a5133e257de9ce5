"""A record in a line: how its trial ended, how long it took, and whether its numbers are to be trusted."""

from __future__ import annotations

from typing import NamedTuple

from steplab.core.record import Head, Record
from steplab.core.trial import Status
from steplab.store.doubt import Verdict


class Brief(NamedTuple):
    """What counting needs of a record; verdict and doubts only where somebody has looked at its times."""

    status: Status
    seconds: float
    verdict: Verdict | None = None
    doubts: str = ""


def counted(head: Head) -> Brief:
    """A record's brief without a verdict."""
    return Brief(head.status, head.seconds)


def judged(record: Record) -> Brief:
    """A record's brief with a verdict."""
    from steplab.store.columns import trial_row  # brings libraries that counting can do without

    row = trial_row(record)
    return Brief(record.status, record.seconds, row["verdict"], row["doubts"])
