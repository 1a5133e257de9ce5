"""Members on other hosts, each under a keeper there: what it is sent, and launchers over any program that gets there.

What runs there, and what it must know, goes over that program's standard input; command lines say only that something
will come. The end of the input, which the laboratory holds, is the members' end.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from steplab.core.home import home
from steplab.runner.ranks.launching import Launch, ProcessEnd, ProcessLauncher
from steplab.runner.ranks.processes import Process, spawn
from steplab_worker import keeper, variables

# Reads how long the program is, and the program.
RECEIVER = "import sys; i = sys.stdin.buffer; exec(i.read(int(i.readline())), {'__name__': 'steplab_keeper'})"
END_S = 5.0  # for a host that is far away, or no more there


class KeptLauncher(ProcessLauncher):
    """Starts members one by one, auxiliary ones first: ranks look for them. A subclass says how to get to a host."""

    sends_worker = False  # whether the worker's code is sent, too; otherwise it is at the same place there

    def way(self, host: str) -> list[str]:
        """The command that runs, on a host, what is sent to its standard input."""
        raise NotImplementedError

    def variables_there(self) -> Mapping[str, str]:
        """The environment variables that `way` itself does not carry over."""
        return {}

    def processes(self) -> Iterator[Process]:
        """A process here for each member there."""
        for member in sorted(self.launch.members, key=lambda member: member.is_rank):
            yield self.kept(member.number)

    def kept(self, number: int) -> Process:
        """A member on its host; its output comes back."""
        command, log = self.way(self.launch.placements[number].host), self.launch.folder.log(number)
        process = spawn(command, (number,), log, self.launch.variables, stdin=subprocess.PIPE)
        line = shell_line(self.launch, "--rank", str(number))
        _write(process, sent({**self.document(), "line": line}, self.worker()))
        return process

    def document(self) -> dict[str, Any]:
        """What every keeper of the group is told, but the line that it runs."""
        python, *words = self.launch.command
        return {
            "task": "run", "token": self.launch.folder.token, "python": places(python),
            "program": words[0] if words else "", "variables": dict(self.variables_there()),
        }  # fmt: skip

    def worker(self) -> bytes:
        """The worker's code as an archive, if it is sent."""
        program = Path(self.launch.command[1]) if len(self.launch.command) > 1 else None
        return archive(program) if self.sends_worker and program and program.is_dir() else b""

    def meaning(self, process: Process, code: int) -> int:
        """Over there a death by a signal is told as a shell does.

        255 is none: by this `ssh` says that it has failed itself.
        """
        return 128 - code if 128 < code < 128 + signal.NSIG else code

    def ended(self) -> ProcessEnd | None:
        """As of any process; its keeper knows whether the kernel killed it for lack of memory."""
        end = super().ended()
        if end is None or end.code != keeper.OUT_OF_MEMORY:
            return end
        return ProcessEnd(end.members, -signal.SIGKILL, out_of_memory=True)

    def signal(self, number: signal.Signals) -> None:
        """Let every member be signalled over there."""
        for process in self._processes:
            _write(process, b"signal %d\n" % number)

    def end(self) -> None:
        """End the input of every process, at which its member is killed over there; then make sure of the rest."""
        for process in self._processes:
            if process.popen.stdin is not None:
                with contextlib.suppress(OSError):
                    process.popen.stdin.close()
        deadline = time.monotonic() + END_S
        for process in self._processes:
            process.wait(deadline)
        for process in self._processes:
            process.kill()


def _write(process: Process, content: bytes) -> None:
    if process.popen.stdin is not None:
        with contextlib.suppress(OSError, ValueError):  # its end will say why
            process.popen.stdin.write(content)
            process.popen.stdin.flush()


def shell_line(launch: Launch, *number: str) -> str:
    """The worker's command as a shell line; where things are on its host, the keeper's variables say."""
    program = [f'"${keeper.PROGRAM}"', shlex.join(launch.command[2:])] if len(launch.command) > 1 else []
    own = shlex.join(["--channel", launch.channel])
    return " ".join([f'exec "${keeper.PYTHON}"', *filter(None, program), own, f'--room "${keeper.ROOM}"', *number])


def sent(document: Mapping[str, Any], worker: bytes = b"") -> bytes:
    """What goes to the standard input first: the keeper's program, its document, the worker's code."""
    program = Path(keeper.__file__).read_bytes()
    line = json.dumps({**document, "archive": len(worker)}).encode()
    return b"%d\n%s%s\n%s" % (len(program), program, line, worker)


@cache
def archive(folder: Path) -> bytes:
    """The worker package; the other host needs nothing of ours but this."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(folder.rglob("*.py")):
            file.write(path, str(path.relative_to(folder)))
    return content.getvalue()


def places(python: str) -> list[str]:
    """Where an interpreter may be on another host: at the same path, or in the same place of the user's own folder."""
    inside = Path(python).is_relative_to(home())
    return [python, *([str(Path(python).relative_to(home()))] if inside else [])]


def of_the_laboratory(ambient: Mapping[str, str]) -> dict[str, str]:
    """The variables that a member elsewhere gets: those that the laboratory has set, and those that change frameworks.

    The others say where things are on this host.
    """
    own = {name: value for name, value in ambient.items() if os.environ.get(name) != value}
    return {name: value for name, value in (own | variables.seen(ambient)).items() if name != "TMPDIR"}
