"""A group of rank processes: started in a framework's environment, spoken to over its own socket, surely ended."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from steplab.core.catalogue import WORKER
from steplab.runner.environments import Environment
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


@dataclass(frozen=True)
class Said:
    """A rank sent a document."""

    rank: int
    document: Document


@dataclass(frozen=True)
class Ended:
    """A rank's process ended; a negative code is the signal that ended it."""

    rank: int
    code: int


class RankGroup:
    """The processes of one group. Whoever makes one must end it with `close` or `kill`."""

    def __init__(self, key: GroupKey, environment: Environment, python_path: list[str]) -> None:
        self.key, self.environment, self.python_path = key, environment, python_path
        self.room = Path(tempfile.mkdtemp(prefix="steplab-"))
        (self.room / "rendezvous").mkdir()
        self.hello: dict[int, Document] = {}
        self.versions: dict[str, str] = {}
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, socket.socket] = {}
        self._buffers: dict[socket.socket, bytearray] = {}
        self._inbox: deque[Said] = deque()
        self._ended: set[int] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.room / "channel"))
        self._listener.listen(key.processes)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.processes = [self._start(rank) for rank in range(key.processes)]

    def _start(self, rank: int) -> subprocess.Popen[bytes]:
        command = [str(self.environment.python), str(WORKER)]
        command += ["--channel", str(self.room / "channel"), "--rank", str(rank)]
        with self._log(rank).open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment_variables(os.environ),
                start_new_session=True,
            )

    def _log(self, rank: int) -> Path:
        return self.room / f"rank{rank}.log"

    def open_document(self, rank: int) -> Document:
        """What a rank is told first."""
        job = GroupJob(
            framework=self.key.framework,
            rank=rank,
            workers=self.key.workers,
            threads=self.key.threads,
            rendezvous=str(self.room / "rendezvous"),
            python_path=self.python_path,
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
        """The next thing that happens in a rank; None after a second or at the deadline (monotonic)."""
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
        """The line of a rank ended, so its process is ending: wait for its code a moment."""
        for rank, connection in self._connections.items():
            if connection is source:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.processes[rank].wait(GRACE_S)

    def _first_ended(self) -> Ended | None:
        for rank, process in enumerate(self.processes):
            if rank not in self._ended and (code := process.poll()) is not None:
                self._ended.add(rank)
                return Ended(rank, code)
        return None

    def _bound_logs(self) -> None:
        """A rank that prints without end must not fill the disk; its log is opened for appending, so it may be cut."""
        for rank in range(self.key.processes):
            with contextlib.suppress(OSError):
                if self._log(rank).stat().st_size > LOG_LIMIT_BYTES:
                    os.truncate(self._log(rank), 0)

    def tail(self, rank: int) -> str:
        """The end of what a rank printed."""
        try:
            with self._log(rank).open("rb") as file:
                return _tail(file)
        except OSError:
            return ""

    def forget_logs(self) -> None:
        """Begin the logs anew, for the next trial."""
        for rank in range(self.key.processes):
            with contextlib.suppress(OSError):
                os.truncate(self._log(rank), 0)

    def close(self) -> None:
        """Let the ranks leave by themselves, then make sure."""
        for rank in self._connections:
            self.send(rank, {"do": "close"})
        self._wait(GRACE_S)
        self.kill()

    def kill(self) -> None:
        """Terminate every process group, then kill it."""
        for process in self.processes:
            _signal(process, signal.SIGTERM)
        self._wait(GRACE_S / 4)
        for process in self.processes:
            _signal(process, signal.SIGKILL)
            process.wait()
        for connection in [self._listener, *self._buffers]:
            connection.close()
        self._selector.close()
        shutil.rmtree(self.room, ignore_errors=True)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))


def _tail(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - TAIL_BYTES))
    return file.read(TAIL_BYTES).decode("utf-8", errors="replace")


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a rank's whole process group (its session), even if the rank itself is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _environment_variables(ambient: Mapping[str, str]) -> dict[str, str]:
    """The laboratory's variables without those that would lead a rank to the laboratory's own packages."""
    misleading = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PYTHONINSPECT")
    return {name: value for name, value in ambient.items() if name not in misleading}
