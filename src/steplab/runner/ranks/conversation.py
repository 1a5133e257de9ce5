"""One trial with one group of ranks: jobs out, times in, until it is done or has gone wrong."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from steplab.core.errors import EnvironmentFault
from steplab.core.trial import Status
from steplab.runner.ranks import clocks
from steplab.runner.ranks.channel import Document, Said
from steplab.runner.ranks.group import Ended, RankGroup
from steplab_worker.job import TrialJob

EVIDENCE_S = 0.3  # how long to listen for the cause after the first rank has failed
_TOLD_BY_OTHERS = ("killed", "crashed", "out-of-memory", "timeout")  # a rank that fails often fails because of these


class Director(Protocol):
    """Tells the ranks of one trial what to do next."""

    renew_s: float  # the deadline is that far away again after each answer; 0: it stays

    def answers(self, said: Mapping[int, Document]) -> dict[int, Document]:
        """What each rank is told after all have spoken."""


@dataclass(frozen=True)
class Failure:
    """How a rank failed."""

    status: Status
    reason: str
    rank: int
    log_tail: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a trial went: the ranks' results, or the failure."""

    results: dict[int, Document] = field(default_factory=dict)
    failure: Failure | None = None


class _Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure


@dataclass
class Conversation:
    """What is said between the laboratory and a group, with a deadline on the monotonic clock."""

    group: RankGroup
    deadline: float
    look_around: Callable[[], None]

    def open(self) -> Failure | None:
        """Wait until every rank has started and imported its framework; auxiliary processes only say hello."""
        opened: set[int] = set()
        try:
            while len(opened) < self.group.key.processes:
                said = self._next("while starting")
                if said.document["say"] == "hello":
                    self.group.send(said.rank, self.group.open_document(said.rank))
                else:
                    opened.add(said.rank)
                    self.group.versions = said.document["versions"]
                    self.group.variables[said.rank] = said.document["variables"]
            return None
        except _Failed as failed:
            return failed.failure

    def clock_offsets(self) -> dict[int, float]:
        """Each rank's clock less that of rank 0, in seconds; hosts are asked, one host has one clock."""
        hosts = {rank: self.group.hello[rank]["host"] for rank in range(self.group.key.processes)}
        asked = clocks.representatives(hosts)
        return clocks.offsets(hosts, {rank: [self._ping(rank) for _ in range(clocks.PINGS)] for rank in asked})

    def _ping(self, rank: int) -> clocks.Ping:
        asked = time.perf_counter()
        self.group.send(rank, {"do": "clock"})
        said = self._next("when asked for its clock")
        return clocks.Ping(asked, said.document["at"], time.perf_counter())

    def trial(self, job: TrialJob, director: Director) -> Outcome:
        """Run one trial; the clocks are compared before it."""
        try:
            offsets = self.clock_offsets()
        except _Failed as failed:
            return Outcome(failure=failed.failure)
        return self._trial(job, director, offsets)

    def _trial(self, job: TrialJob, director: Director, offsets: dict[int, float]) -> Outcome:
        ranks = range(self.group.key.processes)
        order = {"do": "trial", "job": job.document()}
        for rank in ranks:
            self.group.send(rank, order)
        results: dict[int, Document] = {}
        blocks: dict[int, Document] = {}
        try:
            while len(results) < len(ranks):
                said = self._next("in the trial")
                if said.document["say"] == "done":
                    results[said.rank] = said.document | {"clock_offset_s": offsets[said.rank]}
                else:
                    blocks[said.rank] = said.document
                if len(blocks) == len(ranks):
                    self._direct(director, blocks)
                    blocks = {}
            return Outcome(results)
        except _Failed as failed:
            return Outcome(failure=failed.failure)

    def _direct(self, director: Director, blocks: dict[int, Document]) -> None:
        for rank, answer in director.answers(blocks).items():
            self.group.send(rank, answer)
        if director.renew_s:
            self.deadline = time.monotonic() + director.renew_s

    def _next(self, when: str) -> Said:
        """The next document of a rank; anything else is a failure."""
        while True:
            try:
                event = self.group.receive(self.deadline)
            except EnvironmentFault as fault:
                raise _Failed(Failure("failed", str(fault), 0, self.group.tail(0))) from None
            if isinstance(event, Said) and event.document["say"] != "failed":
                return event
            if event is not None:
                raise _Failed(self._cause(self._failure(event, when), when))
            if time.monotonic() >= self.deadline:
                raise _Failed(Failure("timeout", f"no answer in time {when}", 0, self.group.tail(0)))
            self.look_around()

    def _cause(self, first: Failure, when: str) -> Failure:
        """The likeliest cause: a rank that died explains why another one complains of its peer."""
        until, seen = time.monotonic() + EVIDENCE_S, [first]
        while time.monotonic() < until and not any(one.status in _TOLD_BY_OTHERS for one in seen):
            event = self.group.receive(until)
            if isinstance(event, Ended) or (isinstance(event, Said) and event.document["say"] == "failed"):
                seen.append(self._failure(event, when))
        return next((one for one in seen if one.status in _TOLD_BY_OTHERS), first)

    def _failure(self, event: Said | Ended, when: str) -> Failure:
        tail = self.group.tail(event.rank)
        if isinstance(event, Said):
            said = event.document
            reason = f"{self.group.name(event.rank)}: {said['reason']}"
            return Failure(said["status"], reason, event.rank, said["traceback"] or tail)
        return Failure(*_ended(self.group.name(event.rank), event.code, when), event.rank, tail)


def _ended(name: str, code: int, when: str) -> tuple[Status, str]:
    """Status and reason of a process that ended by itself or by a signal."""
    if code >= 0:
        return "crashed", f"{name} ended {when} with exit code {code}"
    number = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    if number in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"):
        hint = " (by a person, or by the kernel for lack of memory)" if number == "SIGKILL" else ""
        return "killed", f"{name} was killed {when} by {number}{hint}"
    return "crashed", f"{name} crashed {when} with {number}"
