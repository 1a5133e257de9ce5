"""Every member is a process on another host, started through the system's `ssh` and gone with it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from steplab.runner.ranks import ssh
from steplab.runner.ranks.launching import ProcessEnd, ProcessLauncher
from steplab.runner.ranks.processes import Process, spawn

GONE = "the host {} was lost"
END_S = 5.0  # for a host that is far away, or no more there


class SshLauncher(ProcessLauncher):
    """Starts members one by one, auxiliary ones first; each has an `ssh` of its own, whose end is its end."""

    def processes(self) -> Iterator[Process]:
        """An `ssh` for each member."""
        for member in sorted(self.launch.members, key=lambda member: member.is_rank):
            yield self._there(member.number)

    def _there(self, number: int) -> Process:
        place, log = self.launch.placements[number], self.launch.folder.log(number)
        destination = self.launch.reach.get(place.host) or place.host
        document = self._document(number)
        process = spawn(ssh.command(destination), (number,), log, self.launch.variables, stdin=subprocess.PIPE)
        _write(process, document)
        return process

    def _document(self, number: int) -> bytes:
        python, *rest = self.launch.command
        program = rest[0] if rest else ""
        worker = ssh.archive(Path(program)) if program and Path(program).is_dir() else b""
        said = {
            "task": "run", "number": number, "channel": self.launch.channel, "token": self.launch.folder.token,
            "python": ssh.places(python), "program": program,
            "variables": ssh.of_the_laboratory(self.launch.variables),
        }  # fmt: skip
        return ssh.sent(said, worker)

    def ended(self) -> ProcessEnd | None:
        """As of any process; an `ssh` that failed has lost its host."""
        end = super().ended()
        if end is None or end.code != ssh.FAILED:
            return end
        return ProcessEnd(end.members, end.code, GONE.format(self.launch.placements[end.members[0]].host))

    def meaning(self, process: Process, code: int) -> int:
        """Over there a death by a signal is told as a shell does."""
        return 128 - code if 128 < code < ssh.FAILED else code

    def signal(self, number: signal.Signals) -> None:
        """Let every member be signalled over there."""
        for process in self._processes:
            _write(process, b"signal %d\n" % number)

    def end(self) -> None:
        """End the input of every `ssh`, at which its member is killed over there; then make sure of the rest."""
        for process in self._processes:
            assert process.popen.stdin is not None
            with contextlib.suppress(OSError):
                process.popen.stdin.close()
        deadline = time.monotonic() + END_S
        for process in self._processes:
            process.wait(deadline)
        for process in self._processes:
            process.kill()


def _write(process: Process, content: bytes) -> None:
    assert process.popen.stdin is not None
    with contextlib.suppress(OSError, ValueError):  # its end will say why
        process.popen.stdin.write(content)
        process.popen.stdin.flush()


LAUNCHER = SshLauncher
