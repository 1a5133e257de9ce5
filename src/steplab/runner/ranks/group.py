"""A group of ranks and their helpers: started in an environment, spoken to over its own socket, surely ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from steplab.core import catalogue
from steplab.core.errors import EnvironmentFault, InputError
from steplab.core.home import home
from steplab.runner.environments import worker
from steplab.runner.environments.registry import Environment
from steplab.runner.ranks.channel import Lines, Received
from steplab.runner.ranks.group_folder import GroupFolder
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.launchers import load_launcher
from steplab.runner.ranks.launching import Launch, Launcher
from steplab.runner.ranks.members import members
from steplab.runner.ranks.private_network import NoPrivateNetwork, PrivateNetwork, obstacle, open_network
from steplab.runner.ranks.rendezvous import Meeting
from steplab.runner.ranks.site import Locate, this_host
from steplab_worker.codec import ProtocolError
from steplab_worker.job import GroupJob
from steplab_worker.machine import Machine
from steplab_worker.messages import AmbientVariables, Close, Failed, Hello, Meet, Message, Open
from steplab_worker.transport import peer_pid

TAIL_BYTES = 4000
LOG_LIMIT_BYTES = 64 << 20
GRACE_S = 2.0
LONGEST_SLEEP_S = 1.0


@dataclass(frozen=True)
class Ended:
    """A member's process ended; a negative code is the signal that ended it."""

    rank: int
    code: int
    reason: str = ""  # where the launcher knows more
    out_of_memory: bool = False


class RankGroup:
    """The processes of one group. Whoever makes one must end it with `close` or `kill`."""

    def __init__(
        self, key: GroupKey, environment: Environment, python_path: list[str], locate: Locate = this_host
    ) -> None:
        self.key, self.environment, self.python_path = key, environment, python_path
        self.versions: dict[str, str] = {}  # of rank 0
        self.versions_of: dict[int, dict[str, str]] = {}  # of each rank
        self.variables: dict[int, AmbientVariables] = {}
        self.members = members(key.framework, key.processes, dict(key.options))
        self.site = locate(key, self.members)
        self._meeting = Meeting(self.site.placements)
        self.room = GroupFolder()
        try:
            self._lines = Lines(self.site.listen or self.room.channel, self.room.token, len(self.members))
        except OSError as error:
            self.room.remove()
            raise EnvironmentFault(f"the ranks cannot be started ({error.strerror})") from None
        self._launcher: Launcher | None = None
        try:
            self._start()
        except BaseException:
            self.kill()
            raise

    def _start(self) -> None:
        network = self._private_network()
        try:
            self._launcher = self._launcher_class()(self._launch(network))
            self._launcher.start()
        finally:
            if network is not None:
                network.close()

    def _launcher_class(self) -> type[Launcher]:
        try:
            return load_launcher(self.site.launcher)
        except InputError as error:
            raise EnvironmentFault(str(error)) from None  # a record says so, not the end of the study

    def _launch(self, network: PrivateNetwork | None) -> Launch:
        return Launch(
            members=self.members,
            placements=self.site.placements,
            reach=self.site.reach,
            command=worker.command(self.environment.python),
            channel=self._lines.address,
            folder=self.room,
            variables=self._environment_variables(),
            network=network,
        )

    def _environment_variables(self) -> dict[str, str]:
        """Of the processes: temporary files in the room, caches worth keeping at home."""
        framework = catalogue.framework(self.key.framework)
        caches = {name: str(home() / "caches" / framework.name) for name in framework.caches}
        return {**caches, **worker.variables(), "TMPDIR": str(self.room.temporary)}

    def _private_network(self) -> PrivateNetwork | None:
        """Where several processes meet; nothing for one process, and where the system allows none."""
        if len(self.members) == 1 or not self.site.private or not catalogue.framework(self.key.framework).doors:
            return None
        if obstacle():
            return None  # `run` and `doctor` have said so
        try:
            return open_network()
        except (NoPrivateNetwork, OSError) as error:
            # What was possible a moment ago: the ranks must not be open to others without a word.
            raise EnvironmentFault(f"the ranks' private network cannot be made ({error})") from None

    @property
    def hello(self) -> dict[int, Hello]:
        """What each member said of itself."""
        return self._lines.hello

    @property
    def machine(self) -> Machine | None:
        """The machine of the first member, or else of one that has come; None before any has."""
        return self.hello[min(self.hello)].machine if self.hello else None

    @property
    def address(self) -> str:
        """Where the laboratory listens for the members."""
        return self._lines.address

    @property
    def pids(self) -> set[int]:
        """The group's processes on this host: its members, and what launched them."""
        here = socket.gethostname()
        own = {hello.pid for hello in self.hello.values() if hello.host == here}
        return own | set(self._launcher.pids() if self._launcher else ())

    @property
    def awaited(self) -> str:
        """Whom the others wait for at the rendezvous; empty if nobody waits."""
        return ", ".join(self.name(number) for number in self._meeting.awaited)

    def name(self, number: int) -> str:
        """What a member is called."""
        return self.members[number].name

    def first_order(self, rank: int) -> Open:
        """What a member is told first."""
        job = GroupJob(
            framework=self.key.framework,
            rank=rank,
            workers=self.key.workers,
            threads=self.key.threads,
            placements=self.site.placements,
            python_path=self.python_path,
            strategy=self.key.strategy,
            role=self.members[rank].role,
            roles=dict(Counter(member.role for member in self.members)),
            adapter_file=catalogue.adapter_file(self.key.framework),
        )
        return Open(job)

    def send(self, rank: int, message: Message) -> None:
        """Send a message; a rank that is gone shows by its end, not here."""
        self._lines.send(rank, message)

    def receive(self, deadline: float) -> Received | Ended | None:
        """The next thing that happens in a member; None after a second or at the deadline (monotonic).

        What members say to each other at the rendezvous is answered here.
        """
        wake = min(deadline, time.monotonic() + LONGEST_SLEEP_S)
        while not self._heard():
            ended = self._first_ended()
            if ended is not None:
                return ended
            silent = len(self._lines.silent)
            self._lines.wait(min(wake - time.monotonic(), LONGEST_SLEEP_S))
            if newly_silent := self._lines.silent[silent:]:
                # Their lines ended, so their processes are ending: wait for their codes a moment.
                self._launched.wait(newly_silent, time.monotonic() + GRACE_S)
            if time.monotonic() >= wake and not self._heard():
                self._bound_logs()
                return None
        return self._lines.inbox.popleft()

    def _heard(self) -> bool:
        """Whether a member has said something to the laboratory."""
        inbox = self._lines.inbox
        while inbox and isinstance(meet := inbox[0].message, Meet):
            self._meet(inbox.popleft().rank, meet)
        return bool(inbox)

    def _meet(self, member: int, meet: Meet) -> None:
        try:
            met = self._meeting.come(member, meet)
        except ProtocolError as error:
            self._lines.inbox.appendleft(Received(member, Failed("failed", str(error))))
            return
        if met is not None:
            for number in range(len(self.members)):
                self.send(number, met)

    @property
    def _launched(self) -> Launcher:
        assert self._launcher is not None, "the group has not been started"
        return self._launcher

    def _first_ended(self) -> Ended | None:
        end = self._launched.ended()
        if end is None:
            return None
        # A process of several members ends because of one of them: the one that fell silent first.
        silent = (number for number in self._lines.silent if number in end.members)
        return Ended(next(silent, end.members[0]), end.code, end.reason, end.out_of_memory)

    def _logs(self) -> list[Path]:
        paths = {path for member in self.members for path in self._launched.logs(member.number)}
        return [path for path in paths if path.exists()]

    def _bound_logs(self) -> None:
        """A rank that prints without end must not fill the disk; its log is opened for appending, so it may be cut."""
        for path in self._logs():
            with contextlib.suppress(OSError):
                if path.stat().st_size > LOG_LIMIT_BYTES:
                    os.truncate(path, 0)

    def tail(self, number: int) -> str:
        """The end of what a member, or else its launcher, printed."""
        for path in self._launched.logs(number):
            with contextlib.suppress(OSError), path.open("rb") as file:
                if text := _tail(file):
                    return text
        return ""

    def forget_logs(self) -> None:
        """Begin the logs anew, for the next trial."""
        for path in self._logs():
            with contextlib.suppress(OSError):
                os.truncate(path, 0)

    def close(self) -> None:
        """Let the ranks leave by themselves, then make sure; auxiliary processes are not asked."""
        for number in self._lines.connected():
            self.send(number, Close())
        ranks = [member.number for member in self.members if member.is_rank]
        self._launched.wait(ranks, time.monotonic() + GRACE_S)
        self.kill()

    def kill(self) -> None:
        """Surely end every process."""
        if self._launcher is not None:
            self._launcher.end()
        self._kill_survivors()
        self._lines.close()
        self.room.remove()

    def _kill_survivors(self) -> None:
        """Kill members of this host that outlived their launcher: an open line shows that the pid is still theirs.

        Where the kernel knows who is at the other end, a member's own word does not count: it might kill anybody.
        """
        here = socket.gethostname()
        for number, hello in self.hello.items():
            connection = self._lines.connection(number)
            # A Unix socket ends on this machine, whatever the host calls itself in a namespace of its own.
            peer = peer_pid(connection) if connection is not None else None
            if connection is None or not (peer or hello.host == here) or not _is_open(connection):
                continue  # elsewhere the end of the line ends them
            connection.settimeout(GRACE_S)
            with contextlib.suppress(OSError):
                os.kill(peer or hello.pid, signal.SIGKILL)
                while connection.recv(1 << 20):
                    pass


def _is_open(connection: socket.socket) -> bool:
    """Whether the other end of a line is still there."""
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _tail(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - TAIL_BYTES))
    return file.read(TAIL_BYTES).decode("utf-8", errors="replace")
