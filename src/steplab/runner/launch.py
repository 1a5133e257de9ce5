"""A group of ranks and their helpers: started in an environment, spoken to over its own socket, surely ended."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from steplab.core.catalogue import WORKER
from steplab.runner import processes
from steplab.runner.environments import Environment
from steplab.runner.processes import Process
from steplab.runner.room import Room
from steplab_worker.job import GroupJob

Document = dict[str, Any]
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


@dataclass(frozen=True)
class Said:
    """A member sent a document."""

    rank: int
    document: Document


@dataclass(frozen=True)
class Ended:
    """A member's process ended; a negative code is the signal that ended it."""

    rank: int
    code: int


class RankGroup:
    """The processes of one group. Whoever makes one must end it with `close` or `kill`."""

    def __init__(self, key: GroupKey, environment: Environment, python_path: list[str]) -> None:
        self.key, self.environment, self.python_path = key, environment, python_path
        self._folder = Room()
        self.room = self._folder.path
        self.hello: dict[int, Document] = {}
        self.versions: dict[str, str] = {}
        self.variables: dict[int, Document] = {}
        self.members = processes.members(key.framework, key.processes)
        self.processes: list[Process] = []
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, socket.socket] = {}
        self._buffers: dict[socket.socket, bytearray] = {}
        self._inbox: deque[Said] = deque()
        self._silent: list[int] = []  # members whose line ended, in that order
        self._ended: set[int] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.room / "channel"))
        self._listener.listen(len(self.members))
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._start()

    def _start(self) -> None:
        worker = [str(self.environment.python), str(WORKER)]
        try:
            for process in processes.start(self.key.framework, worker, self.room, self.members):
                self.processes.append(process)
        except BaseException:
            self.kill()
            raise

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
            rendezvous=str(self.room / "rendezvous"),
            python_path=self.python_path,
            strategy=self.key.strategy,
            role=self.members[rank].role,
        )
        return {"do": "open", "group": job.document()}

    def send(self, rank: int, document: Document) -> None:
        """Send a document; a rank that is gone shows by its end, not here."""
        connection = self._connections[rank]
        with contextlib.suppress(OSError):
            connection.setblocking(True)
            connection.sendall(json.dumps(document, separators=(",", ":")).encode() + b"\n")
        connection.setblocking(False)

    def receive(self, deadline: float) -> Said | Ended | None:
        """The next thing that happens in a member; None after a second or at the deadline (monotonic)."""
        wake = min(deadline, time.monotonic() + LONGEST_SLEEP_S)
        while not self._inbox:
            ended = self._first_ended()
            if ended is not None:
                return ended
            events = self._selector.select(max(0.0, min(wake - time.monotonic(), LONGEST_SLEEP_S)))
            for key, _ in events:
                self._read(key.fileobj)
            if not events and time.monotonic() >= wake:
                self._bound_logs()
                return None
        return self._inbox.popleft()

    def _read(self, source: Any) -> None:
        if source is self._listener:
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._buffers[connection] = bytearray()
            self._selector.register(connection, selectors.EVENT_READ)
            return
        try:
            chunk = source.recv(1 << 20)
        except OSError:
            chunk = b""
        if not chunk:
            self._selector.unregister(source)
            self._await_end(source)
            return
        self._buffers[source] += chunk
        while (end := self._buffers[source].find(b"\n")) >= 0:
            line = bytes(self._buffers[source][:end])
            del self._buffers[source][: end + 1]
            self._take(source, json.loads(line))

    def _take(self, source: socket.socket, document: Document) -> None:
        if document["say"] == "hello":
            self.hello[document["rank"]] = document
            self._connections[document["rank"]] = source
        rank = next(rank for rank, connection in self._connections.items() if connection is source)
        self._inbox.append(Said(rank, document))

    def _await_end(self, source: socket.socket) -> None:
        """The line of a member ended, so its process is ending: wait for its code a moment."""
        for number, connection in self._connections.items():
            if connection is source:
                self._silent.append(number)
                next(one for one in self.processes if number in one.numbers).wait(time.monotonic() + GRACE_S)

    def _first_ended(self) -> Ended | None:
        for process in self.processes:
            code = process.code()
            if code is not None and process.popen.pid not in self._ended:
                self._ended.add(process.popen.pid)
                # A launcher ends because of one of its ranks: the one that fell silent first.
                number = next((one for one in self._silent if one in process.numbers), process.numbers[0])
                return Ended(number, code)
        return None

    def _logs(self) -> list[Path]:
        own = [processes.log(self.room, member.number) for member in self.members]
        return [path for path in [*own, processes.launcher_log(self.room)] if path.exists()]

    def _bound_logs(self) -> None:
        """A rank that prints without end must not fill the disk; its log is opened for appending, so it may be cut."""
        for path in self._logs():
            with contextlib.suppress(OSError):
                if path.stat().st_size > LOG_LIMIT_BYTES:
                    os.truncate(path, 0)

    def tail(self, number: int) -> str:
        """The end of what a member, or else its launcher, printed."""
        for path in (processes.log(self.room, number), processes.launcher_log(self.room)):
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
        for number in self._connections:
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
        for connection in [self._listener, *self._buffers]:
            connection.close()
        self._selector.close()
        self._folder.remove()

    def _kill_launched(self) -> None:
        """Kill ranks that outlived their launcher; an open line shows that the process of that number is still it."""
        launched = [number for process in self.processes if process.launcher for number in process.numbers]
        for number in set(launched) & set(self._connections) - set(self._silent):
            connection = self._connections[number]
            connection.settimeout(GRACE_S)
            with contextlib.suppress(OSError):
                if not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    continue
            with contextlib.suppress(OSError):
                os.kill(self.hello[number]["pid"], signal.SIGKILL)
                while connection.recv(1 << 20):
                    pass


def _tail(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - TAIL_BYTES))
    return file.read(TAIL_BYTES).decode("utf-8", errors="replace")
