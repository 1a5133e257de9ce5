"""One attempt at a trial: a group of ranks takes a job, and what they measured comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from steplab.core.record import EnvironmentInfo, Variables
from steplab.kinds.director import Director, Findings
from steplab.runner.data.datasets import DataSource
from steplab.runner.instruments import surroundings
from steplab.runner.instruments.surroundings import Seen
from steplab.runner.ranks.conversation import Conversation, Failure, Outcome
from steplab.runner.ranks.group import RankGroup
from steplab_worker.job import TrialJob
from steplab_worker.messages import AmbientVariables, Hello
from steplab_worker.placement import Placement

LOG_CHARACTERS = 4000  # of what the ranks printed, in a record


@dataclass(frozen=True)
class Task:
    """What a group of ranks is to do: a trial's job, who directs it, and how long it may take."""

    job: TrialJob
    director: Director
    timeout_s: float
    source: DataSource | None  # the files that it reads; None on a virtual clock


@dataclass(frozen=True)
class RanksInfo:
    """What a record tells of the ranks beside what they measured."""

    environment: EnvironmentInfo
    versions: Mapping[str, str]
    variables: tuple[Variables, ...]  # of each rank
    hello: Mapping[int, Hello]
    placements: tuple[Placement, ...] = ()  # of each member of the group
    versions_of: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # of each rank


@dataclass(frozen=True)
class Measured:
    """What came of one attempt."""

    outcome: Outcome
    findings: Findings
    started: datetime
    seconds: float
    source: DataSource | None = None
    ranks: RanksInfo | None = None  # None if none were there
    seen: Seen = surroundings.NOTHING
    log_tail: str = ""


@dataclass(frozen=True)
class Stopwatch:
    """Notes when an attempt began."""

    started: datetime
    ticks: float

    @classmethod
    def now(cls) -> Stopwatch:
        """Begin."""
        return cls(datetime.now(UTC), time.monotonic())

    @property
    def seconds(self) -> float:
        """How long ago that was."""
        return time.monotonic() - self.ticks


def not_run(failure: Failure, director: Director, since: Stopwatch, source: DataSource | None = None) -> Measured:
    """An attempt that ended before any rank had its job."""
    outcome, tail = Outcome(failure=failure), failure.log_tail[-LOG_CHARACTERS:]
    return Measured(outcome, director.findings(), since.started, since.seconds, source, log_tail=tail)


def attempt(group: RankGroup, task: Task, look_around: Callable[[], None]) -> Measured:
    """Let a group do its task. After a failure it must not be used again."""
    since, ranks = Stopwatch.now(), _ranks_info(group)
    # Nothing that other programs do matters to a trial on a virtual clock.
    watch = surroundings.watch(group) if task.source else None
    conversation = Conversation(group, time.monotonic() + task.timeout_s, look_around)
    outcome = conversation.trial(task.job, task.director)
    seen = watch.end() if watch else surroundings.NOTHING
    tail, findings = _log_tail(group, outcome), task.director.findings()
    return Measured(outcome, findings, since.started, since.seconds, task.source, ranks, seen, tail)


def _log_tail(group: RankGroup, outcome: Outcome) -> str:
    """What the ranks printed; the next trial begins with empty logs."""
    if outcome.failure is not None:
        return outcome.failure.log_tail[-LOG_CHARACTERS:]
    tail = "".join(group.tail(rank) for rank in range(group.key.processes))[-LOG_CHARACTERS:]
    group.forget_logs()
    return tail


def _ranks_info(group: RankGroup) -> RanksInfo:
    place = group.environment
    return RanksInfo(
        environment=EnvironmentInfo(name=place.name, python=str(place.python), lock=list(place.lock)),
        versions=group.versions,
        variables=tuple(_variables(ambient) for _, ambient in sorted(group.variables.items())),
        hello=dict(group.hello),
        placements=group.site.placements,
        versions_of=dict(group.versions_of),
    )


def _variables(ambient: AmbientVariables) -> Variables:
    """What a rank saw; what it does not have from the laboratory's own surroundings, steplab has set."""
    ours = {name for name, value in ambient.seen.items() if os.environ.get(name) != value}
    return Variables(seen=ambient.seen, own=sorted(ours | set(ambient.own)))
