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
from steplab.core.errors import EnvironmentFault
from steplab.runner.environments import worker
from steplab.runner.environments.registry import Environment
from steplab.runner.ranks import processes
from steplab.runner.ranks.channel import Document, Lines, Said
from steplab.runner.ranks.group_folder import GroupFolder
from steplab.runner.ranks.private_network import NoPrivateNetwork, PrivateNetwork, obstacle, open_network
from steplab.runner.ranks.processes import Process
from steplab_worker.job import GroupJob

TAIL_BYTES = 4000
LOG_LIMIT_BYTES = 64 << 20
GRACE_S = 2.0
LONGEST_SLEEP_S = 1.0


@dataclass(frozen=True)
class GroupKey:
    """What a group of ranks is for; trials with the same key can share it."""

    framework: str
    environment: str
    workers: int
    threads: int
    processes: int  # one for each worker, or one for all
    strategy: str = ""  # where the framework needs a group for each
    options: tuple[tuple[str, object], ...] = ()  # of the framework, those that say how many auxiliary processes it has


@dataclass(frozen=True)
class Ended:
    """A member's process ended; a negative code is the signal that ended it."""

    rank: int
    code: int


class RankGroup:
    """The processes of one group. Whoever makes one must end it with `close` or `kill`."""

    def __init__(self, key: GroupKey, environment: Environment, python_path: list[str]) -> None:
        self.key, self.environment, self.python_path = key, environment, python_path
        self.versions: dict[str, str] = {}
        self.variables: dict[int, Document] = {}
        self.members = processes.members(key.framework, key.processes, dict(key.options))
        self.processes: list[Process] = []
        self._ended: set[int] = set()
        self.room = GroupFolder()
        try:
            self._lines = Lines(self.room, len(self.members))
        except OSError as error:
            self.room.remove()
            raise EnvironmentFault(f"the ranks cannot be started ({error.strerror})") from None
        try:
            self._start()
        except BaseException:
            self.kill()
            raise

    def _start(self) -> None:
        network = self._private_network()
        try:
            setting = processes.Setting(worker.command(self.environment.python), self.room, network)
            for process in processes.start(self.key.framework, setting, self.members):
                self.processes.append(process)
        finally:
            if network is not None:
                network.close()

    def _private_network(self) -> PrivateNetwork | None:
        """Where several processes meet; nothing for one process, and where the system allows none."""
        if len(self.members) == 1 or not catalogue.framework(self.key.framework).doors:
            return None
        if obstacle():
            return None  # `run` and `doctor` have said so
        try:
            return open_network()
        except (NoPrivateNetwork, OSError) as error:
            # What was possible a moment ago: the ranks must not be open to others without a word.
            raise EnvironmentFault(f"the ranks' private network cannot be made ({error})") from None

    @property
    def hello(self) -> dict[int, Document]:
        """What each member said of itself."""
        return self._lines.hello

    def name(self, number: int) -> str:
        """What a member is called."""
        return self.members[number].name

    def open_document(self, rank: int) -> Document:
        """What a member is told first."""
        job = GroupJob(
            framework=self.key.framework,
            rank=rank,
            workers=self.key.workers,
            threads=self.key.threads,
            rendezvous=str(self.room.rendezvous),
            python_path=self.python_path,
            strategy=self.key.strategy,
            role=self.members[rank].role,
            roles=dict(Counter(member.role for member in self.members)),
            adapter_file=catalogue.adapter_file(self.key.framework),
        )
        return {"do": "open", "group": job.document()}

    def send(self, rank: int, document: Document) -> None:
        """Send a document; a rank that is gone shows by its end, not here."""
        self._lines.send(rank, document)

    def receive(self, deadline: float) -> Said | Ended | None:
        """The next thing that happens in a member; None after a second or at the deadline (monotonic)."""
        wake = min(deadline, time.monotonic() + LONGEST_SLEEP_S)
        while not self._lines.inbox:
            ended = self._first_ended()
            if ended is not None:
                return ended
            silent = len(self._lines.silent)
            something = self._lines.wait(min(wake - time.monotonic(), LONGEST_SLEEP_S))
            for number in self._lines.silent[silent:]:
                # Its line ended, so its process is ending: wait for its code a moment.
                self._process_of(number).wait(time.monotonic() + GRACE_S)
            if not something and time.monotonic() >= wake:
                self._bound_logs()
                return None
        return self._lines.inbox.popleft()

    def _process_of(self, number: int) -> Process:
        return next(process for process in self.processes if number in process.numbers)

    def _first_ended(self) -> Ended | None:
        for process in self.processes:
            code = process.code()
            if code is not None and process.popen.pid not in self._ended:
                self._ended.add(process.popen.pid)
                # A launcher ends because of one of its ranks: the one that fell silent first.
                silent = (number for number in self._lines.silent if number in process.numbers)
                number = next(silent, process.numbers[0])
                return Ended(number, code)
        return None

    def _logs(self) -> list[Path]:
        own = [processes.log(self.room.path, member.number) for member in self.members]
        return [path for path in [*own, processes.launcher_log(self.room.path)] if path.exists()]

    def _bound_logs(self) -> None:
        """A rank that prints without end must not fill the disk; its log is opened for appending, so it may be cut."""
        for path in self._logs():
            with contextlib.suppress(OSError):
                if path.stat().st_size > LOG_LIMIT_BYTES:
                    os.truncate(path, 0)

    def tail(self, number: int) -> str:
        """The end of what a member, or else its launcher, printed."""
        for path in (processes.log(self.room.path, number), processes.launcher_log(self.room.path)):
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
            self.send(number, {"do": "close"})
        deadline = time.monotonic() + GRACE_S
        for process in self.processes:
            if process.numbers[0] < self.key.processes:
                process.wait(deadline)
        self.kill()

    def kill(self) -> None:
        """Terminate every process group, then kill it."""
        deadline = time.monotonic() + GRACE_S / 4
        for process in self.processes:
            process.signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(deadline)
            process.signal(signal.SIGKILL)
            process.popen.wait()
        self._kill_launched()
        self._lines.close()
        self.room.remove()

    def _kill_launched(self) -> None:
        """Kill ranks that outlived their launcher; an open line shows that the process of that number is still it."""
        for number in [number for process in self.processes if process.launcher for number in process.numbers]:
            connection = self._lines.connection(number)
            if connection is None:
                continue
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                if not connection.recv(1, socket.MSG_PEEK):
                    continue
            connection.settimeout(GRACE_S)
            with contextlib.suppress(OSError):
                os.kill(self.hello[number]["pid"], signal.SIGKILL)
                while connection.recv(1 << 20):
                    pass


def _tail(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - TAIL_BYTES))
    return file.read(TAIL_BYTES).decode("utf-8", errors="replace")
