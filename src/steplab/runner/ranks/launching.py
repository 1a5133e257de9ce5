"""The seam for launching: what every way to start the members of a group is told, and what it must do.

A launcher starts members at their placements, tells which ended and how, and surely ends them. It measures nothing and
knows no framework; members speak to the laboratory over the channel, not through it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from steplab.runner.ranks.group_folder import GroupFolder
from steplab.runner.ranks.members import Member
from steplab.runner.ranks.private_network import PrivateNetwork
from steplab.runner.ranks.processes import Process, spawn
from steplab_worker.placement import Placement

GRACE_S = 0.5  # between asking processes to end and killing them


@dataclass(frozen=True)
class Launch:
    """All that a launcher is told about a group."""

    members: Sequence[Member]
    placements: Sequence[Placement]  # of each member, by its number
    command: Sequence[str]  # of the worker in its environment, without what `member` adds
    channel: str  # the laboratory's address
    folder: GroupFolder
    variables: Mapping[str, str] = field(default_factory=dict)  # all environment variables of the processes
    reach: Mapping[str, str] = field(default_factory=dict)  # how to get to each host, where its name is not enough
    network: PrivateNetwork | None = None  # for processes of this host; closed after the start

    def member(self, number: int) -> list[str]:
        """The command of one member."""
        return [*self._worker(), "--rank", str(number)]

    def numbered_by(self, variable: str) -> list[str]:
        """The command of any rank, if a launcher tells each its number in an environment variable."""
        return [*self._worker(), "--rank-variable", variable]

    def _worker(self) -> list[str]:
        return [*self.command, "--channel", self.channel, "--room", str(self.folder.path)]


@dataclass(frozen=True)
class ProcessEnd:
    """A process ended, and with it these members; a negative code is the signal that ended it or one of them."""

    members: tuple[int, ...]
    code: int
    reason: str = ""  # where the launcher knows more than the code tells
    out_of_memory: bool = False  # by the word of who kept it elsewhere


class Launcher(Protocol):
    """Starts the members of one group where they belong. Whoever calls `start` must call `end`, whatever happens."""

    def __init__(self, launch: Launch) -> None: ...

    def start(self) -> None:
        """Start all members; EnvironmentFault says what cannot be started."""

    def ended(self) -> ProcessEnd | None:
        """A process that has ended and was not told of before; asked often, so it must not wait."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all members that are left."""

    def wait(self, members: Collection[int], deadline: float) -> None:
        """Wait until the processes of these members have ended, at most until then (monotonic)."""

    def end(self) -> None:
        """End everything, by force if need be; may be called again, and after a failed start."""

    def logs(self, member: int) -> Sequence[Path]:
        """The files with a member's output, its own first, then what its launcher said; some may not exist."""

    def pids(self) -> Collection[int]:
        """The processes on this host that it started itself."""


class ProcessLauncher:
    """A launcher over processes of this host, each for one or several members; a subclass says which to start."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._processes: list[Process] = []
        self._told: set[int] = set()

    def processes(self) -> Iterator[Process]:
        """Start the processes, one after the other."""
        raise NotImplementedError

    def start(self) -> None:
        """Start all members."""
        for process in self.processes():
            self._processes.append(process)

    def alone(self, number: int) -> Process:
        """A process for one member on this host."""
        return self.spawn(self.launch.member(number), (number,), self.launch.folder.log(number))

    def spawn(
        self, command: Sequence[str], members: tuple[int, ...], log: Path, variables: Mapping[str, str] | None = None
    ) -> Process:
        """A process with the group's environment, and perhaps further variables."""
        return spawn(command, members, log, {**self.launch.variables, **(variables or {})}, self.launch.network)

    def ended(self) -> ProcessEnd | None:
        """A process that has ended and was not told of before."""
        for process in self._processes:
            code = process.code()
            if code is not None and process.pid not in self._told:
                self._told.add(process.pid)
                return ProcessEnd(process.members, self.meaning(process, code))
        return None

    def meaning(self, process: Process, code: int) -> int:
        """What the exit code of a process says about its members."""
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes."""
        for process in self._processes:
            process.signal(number)

    def wait(self, members: Collection[int], deadline: float) -> None:
        """Wait for the processes of these members."""
        for process in self._processes:
            if not set(process.members).isdisjoint(members):
                process.wait(deadline)

    def end(self) -> None:
        """Ask every process to end, then kill its whole process group."""
        self.signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        for process in self._processes:
            process.wait(deadline)
        for process in self._processes:
            process.kill()

    def logs(self, member: int) -> Sequence[Path]:
        """The member's own log."""
        return (self.launch.folder.log(member),)

    def pids(self) -> Collection[int]:
        """The processes that it started."""
        return [process.pid for process in self._processes]
