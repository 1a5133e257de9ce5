"""One trial with one group of ranks: jobs out, times in, until it is done or has gone wrong."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field

from steplab.core.errors import EnvironmentFault
from steplab.core.files import readable
from steplab.core.trial import Status
from steplab.kinds.director import Director, OutOfTurn, said_by
from steplab.runner.ranks import clocks
from steplab.runner.ranks.channel import Received
from steplab.runner.ranks.group import Ended, RankGroup
from steplab_worker.job import TrialJob
from steplab_worker.keeper import oom_kills
from steplab_worker.machine import Machine, machine
from steplab_worker.messages import (
    ClockRead,
    Failed,
    Hello,
    Message,
    Opened,
    ReadClock,
    Result,
    RunTrial,
)

LONGEST_REASON = 5000  # characters of it in a record
EVIDENCE_S = 0.3  # how long to listen for the cause after the first rank has failed
_TOLD_BY_OTHERS = ("killed", "crashed", "out-of-memory", "timeout")  # a rank that fails often fails because of these


@dataclass(frozen=True)
class Failure:
    """How a rank failed."""

    status: Status
    reason: str
    rank: int
    log_tail: str = ""
    machine: Machine | None = None  # of a group that could not be opened, if a member came so far as to say


@dataclass(frozen=True)
class Outcome:
    """How a trial went: the ranks' results and clocks, or the failure."""

    results: Mapping[int, Result] = field(default_factory=dict)
    clock_offsets_s: Mapping[int, float] = field(default_factory=dict)
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
    oom_kills: int = field(default_factory=oom_kills)  # on this host, before it began

    def open(self) -> Failure | None:
        """Wait until every rank has started and imported its framework; auxiliary processes only say hello."""
        opened: dict[int, Opened] = {}
        try:
            while len(opened) < self.group.key.processes:
                answer = self._next("while starting", spoken=opened)
                with self._blaming():
                    opened[answer.rank] = said_by(answer.rank, answer.message, Opened)
        except _Failed as failed:
            return failed.failure
        self.group.versions = opened[0].versions
        self.group.versions_of = {rank: opened[rank].versions for rank in sorted(opened)}
        self.group.variables = {rank: opened[rank].variables for rank in sorted(opened)}
        return None

    def clock_offsets(self) -> dict[int, float]:
        """Each rank's clock less that of rank 0, in seconds; those of one kernel are one clock."""
        machines = {rank: self.group.hello[rank].machine for rank in range(self.group.key.processes)}
        hosts = {rank: machine.boot or machine.host for rank, machine in machines.items()}
        asked = clocks.representatives(hosts)
        return clocks.offsets(hosts, {rank: [self._ping(rank) for _ in range(clocks.PINGS)] for rank in asked})

    def _ping(self, rank: int) -> clocks.Ping:
        asked = time.perf_counter()
        self.group.send(rank, ReadClock())
        answer = self._next("when asked for its clock", spoken=self.group.hello.keys() - {rank})
        with self._blaming():
            return clocks.Ping(asked, said_by(rank, answer.message, ClockRead).at, time.perf_counter())

    def trial(self, job: TrialJob, director: Director) -> Outcome:
        """Run one trial; the clocks are compared before it."""
        try:
            self._expect_silence()
            offsets = self.clock_offsets()
            return Outcome(self._results(job, director), offsets)
        except _Failed as failed:
            return Outcome(failure=failed.failure)

    def _expect_silence(self) -> None:
        """Between trials nobody has anything to say: what comes then must not be taken for an answer."""
        when = "between trials"
        while (event := self.group.receive(time.monotonic())) is not None:
            self._heard(self._good(event, when), when, spoken=self.group.hello)

    def _results(self, job: TrialJob, director: Director) -> dict[int, Result]:
        """Rounds in which every rank asks and is answered, until all have a result."""
        ranks = range(self.group.key.processes)
        for rank in ranks:
            self.group.send(rank, RunTrial(job))
        while True:
            spoken = self._round()
            results = {rank: message for rank, message in spoken.items() if isinstance(message, Result)}
            with self._blaming():
                if len(results) == len(ranks):
                    director.check({rank: result.measurement for rank, result in results.items()})
                    return results
                answers = director.answers(spoken)
            for rank in ranks:
                self.group.send(rank, answers[rank])
            if director.renew_s:
                self.deadline = time.monotonic() + director.renew_s

    def _round(self) -> dict[int, Message]:
        """One message of every rank."""
        spoken: dict[int, Message] = {}
        while len(spoken) < self.group.key.processes:
            answer = self._next("in the trial", spoken)
            spoken[answer.rank] = answer.message
        return spoken

    @contextlib.contextmanager
    def _blaming(self) -> Iterator[None]:
        """A rank that does not keep to the order has failed."""
        try:
            yield
        except OutOfTurn as error:
            rank = error.rank
            what = f"{self.group.name(rank)}: {error.what}"
            raise _Failed(Failure("failed", what, rank, self.group.tail(rank))) from None

    def _next(self, when: str, spoken: Container[int]) -> Received:
        """The next message of a rank that has not yet spoken; anything else is a failure."""
        while not self._heard(event := self._event(when), when, spoken):
            pass
        return event

    def _heard(self, event: Received, when: str, spoken: Container[int]) -> bool:
        """Whether a message is for the conversation: a greeting is answered at once, nobody speaks twice."""
        if isinstance(event.message, Hello):
            self.group.send(event.rank, self.group.first_order(event.rank))
            return False
        with self._blaming():
            if event.rank in spoken or event.rank >= self.group.key.processes:
                raise OutOfTurn(event.rank, f"sent {type(event.message).__name__} {when}, unasked")
        return True

    def _event(self, when: str) -> Received:
        """The next message of any member that is not about a failure."""
        while True:
            try:
                event = self.group.receive(self.deadline)
            except EnvironmentFault as fault:
                raise _Failed(Failure("failed", str(fault), 0, self.group.tail(0))) from None
            answer = None if event is None else self._good(event, when)
            if time.monotonic() >= self.deadline:  # of ranks that talk without end, too
                raise _Failed(Failure("timeout", f"no answer in time {when}{self._awaited()}", 0, self.group.tail(0)))
            if answer is not None:
                return answer
            self.look_around()

    def _awaited(self) -> str:
        return f": the others wait for {self.group.awaited}" if self.group.awaited else ""

    def _good(self, event: Received | Ended, when: str) -> Received:
        """What a member said, unless it is about a failure."""
        if isinstance(event, Ended) or isinstance(event.message, Failed):
            raise _Failed(self._cause(self._failure(event, when), when))
        return event

    def _cause(self, first: Failure, when: str) -> Failure:
        """The likeliest cause: a rank that died explains why another one complains of its peer."""
        until, seen = time.monotonic() + EVIDENCE_S, [first]
        while time.monotonic() < until and not any(failure.status in _TOLD_BY_OTHERS for failure in seen):
            event = self.group.receive(until)
            # A rank that has said why it fails may well end then.
            if event is not None and _is_bad(event) and event.rank not in [failure.rank for failure in seen]:
                seen.append(self._failure(event, when))
        return next((failure for failure in seen if failure.status in _TOLD_BY_OTHERS), first)

    def _failure(self, event: Received | Ended, when: str) -> Failure:
        name, tail = self.group.name(event.rank), self.group.tail(event.rank)
        if isinstance(event, Ended) and event.reason:
            return Failure("crashed", f"{name}: {event.reason} {when}", event.rank, tail)
        if isinstance(event, Ended):
            return Failure(*_ended(name, event.code, when, self._lacked_memory(event)), event.rank, tail)
        assert isinstance(event.message, Failed)
        complaint = event.message
        reason = readable(complaint.reason[:LONGEST_REASON])
        return Failure(complaint.status, f"{name}: {reason}", event.rank, readable(complaint.traceback) or tail)

    def _lacked_memory(self, event: Ended) -> bool:
        """Whether the kernel killed it for lack of memory: by its keeper's word, or here by the kernel's own count."""
        hello = self.group.hello.get(event.rank)
        here = hello is not None and hello.machine.boot == machine().boot
        return event.out_of_memory or (here and oom_kills() > self.oom_kills)


def _is_bad(event: Received | Ended) -> bool:
    return isinstance(event, Ended) or isinstance(event.message, Failed)


def _ended(name: str, code: int, when: str, lacked_memory: bool) -> tuple[Status, str]:
    """Status and reason of a process that ended by itself or by a signal."""
    if code == -signal.SIGKILL and lacked_memory:
        return "out-of-memory", f"{name} was killed {when} by the kernel for lack of memory"
    if code >= 0:
        return "crashed", f"{name} ended {when} with exit code {code}"
    number = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    if number in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"):
        hint = " (by a person, or by the kernel for lack of memory)" if number == "SIGKILL" else ""
        return "killed", f"{name} was killed {when} by {number}{hint}"
    return "crashed", f"{name} crashed {when} with {number}"
