"""Ranks that are played, for tests of a campaign: they answer as real ones do, in no time and without processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steplab.runner.environments.registry import Environment
from steplab.runner.ranks.channel import Received
from steplab.runner.ranks.conversation import Failure
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.site import Site
from steplab_worker.job import TrialJob
from steplab_worker.machine import machine
from steplab_worker.messages import (
    AmbientVariables,
    Block,
    ClockRead,
    Failed,
    Hello,
    Iterate,
    Measurement,
    Message,
    ModeTimes,
    ReadClock,
    Result,
    RunTrial,
    Usage,
)
from steplab_worker.placement import Placement

STEP_S = 0.25
Faults = Callable[[TrialJob], Failed | None]


@dataclass
class PlayedGroup:
    """A group of ranks whose every step takes STEP_S; a fault is what rank 0 says instead of running a trial."""

    key: GroupKey
    fault: Faults
    environment: Environment = field(
        default_factory=lambda: Environment("played", "synthetic", Path("/played/python"), "1", ("numpy==1",))
    )
    jobs: list[TrialJob] = field(default_factory=list)
    inbox: deque[Received] = field(default_factory=deque)
    warmup: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        ranks = range(self.key.processes)
        self.versions = {"synthetic": "1"}
        self.versions_of = dict.fromkeys(ranks, self.versions)
        self.site = Site("played", tuple(Placement(machine().host, rank, "127.0.0.1") for rank in ranks))
        self.variables = {rank: AmbientVariables({}, []) for rank in ranks}
        self.hello = {rank: Hello(rank, 4000 + rank, "token", machine()) for rank in ranks}

    awaited = ""

    def name(self, number: int) -> str:
        return f"rank {number}"

    def tail(self, number: int) -> str:
        return f"rank {number} printed; "

    def forget_logs(self) -> None:
        pass

    def receive(self, deadline: float) -> Received | None:
        return self.inbox.popleft() if self.inbox else None

    def send(self, rank: int, message: Message) -> None:
        self.inbox.append(Received(rank, self._answer(rank, message)))

    def _answer(self, rank: int, order: Message) -> Message:
        if isinstance(order, ReadClock):
            return ClockRead(0.5)
        if isinstance(order, RunTrial):
            return self._begin(rank, order.job)
        assert isinstance(order, Iterate)
        if rank == 0:
            self.warmup += [order.warmup] * order.iterations
        if not order.last and order.iterations:
            return Block("native", [STEP_S] * order.iterations)
        times = ModeTimes({"t_iter": [STEP_S] * len(self.warmup)}, list(self.warmup))
        return Result(Measurement({"native": times}, 0.5), Usage(1.0, 1e6))

    def _begin(self, rank: int, job: TrialJob) -> Message:
        if rank == 0:
            self.jobs.append(job)
            self.warmup = []
        fault = self.fault(job) if rank == 0 else None
        return fault or Block("native", [])


@dataclass
class PlayedGroups:
    """In place of a pool: groups of played ranks, or a failure to start them; notes what is asked of it."""

    fault: Faults = lambda job: None
    no_start: Failure | None = None
    groups: list[PlayedGroup] = field(default_factory=list)
    blocks: list[object] = field(default_factory=list)
    discarded: list[GroupKey] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def group(
        self, key: GroupKey, block: object, start_deadline_s: float, look_around: Callable[[], None]
    ) -> PlayedGroup | Failure:
        self.blocks.append(block)
        if self.no_start is not None:
            return self.no_start
        self.groups.append(PlayedGroup(key, self.fault))
        return self.groups[-1]

    @property
    def jobs(self) -> list[TrialJob]:
        """All jobs so far."""
        return [job for group in self.groups for job in group.jobs]

    def discard(self, key: GroupKey) -> None:
        self.discarded.append(key)

    def close(self) -> None:
        self.ended.append("closed")

    def kill(self) -> None:
        self.ended.append("killed")


@pytest.fixture
def played() -> type[PlayedGroups]:
    """Groups of played ranks."""
    return PlayedGroups
