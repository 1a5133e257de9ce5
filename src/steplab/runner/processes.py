"""The processes of a group: ranks, started one by one or by a launcher, and the auxiliary roles beside them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from steplab.core import catalogue
from steplab.core.errors import EnvironmentFault


@dataclass(frozen=True)
class Member:
    """One of those that speak to the laboratory; ranks are numbered first."""

    number: int
    role: str
    name: str


@dataclass(frozen=True)
class Process:
    """A process that the laboratory started, for one member or, if it is a launcher, for all ranks."""

    popen: subprocess.Popen[bytes]
    numbers: tuple[int, ...]
    launcher: bool = False

    def code(self) -> int | None:
        """Its exit code once it has ended; minus the signal, if one ended it or the rank that it launched."""
        code = self.popen.poll()
        # A launcher reports a rank's death by a signal as a shell does.
        return 128 - code if self.launcher and code is not None and code > 128 else code

    def wait(self, deadline: float) -> None:
        """Wait for its end, at most until then (monotonic)."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(max(0.0, deadline - time.monotonic()))

    def signal(self, number: signal.Signals) -> None:
        """Signal its whole process group (its session), even if the process itself is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, number)


def members(framework: str, ranks: int) -> list[Member]:
    """The ranks of a group and, if there are several, the roles that its framework declares.

    >>> [member.name for member in members("mxnet", 2)]
    ['rank 0', 'rank 1', 'scheduler 0', 'server 0']
    """
    roles = catalogue.framework(framework).roles if ranks > 1 else {}
    wanted = [("rank", index) for index in range(ranks)]
    wanted += [(role, index) for role, count in roles.items() for index in range(count)]
    return [Member(number, role, f"{role} {index}") for number, (role, index) in enumerate(wanted)]


def start(framework: str, worker: list[str], room: Path, group: list[Member]) -> Iterator[Process]:
    """Start a group's processes with the command of a worker, auxiliary ones first; the channel is in the room."""
    ranks = tuple(member.number for member in group if member.role == "rank")
    others = [member.number for member in group if member.role != "rank"]
    worker = [*worker, "--channel", str(room / "channel")]
    launcher = catalogue.framework(framework).launcher if len(ranks) > 1 else None
    for number in others if launcher else [*others, *ranks]:
        yield Process(_popen([*worker, "--rank", str(number)], log(room, number)), (number,))
    if launcher:
        words = {"{processes}": str(len(ranks)), "{room}": str(room)}
        prefix = [words.get(word, word) for word in launcher.command]
        yield Process(_popen([*prefix, *worker, "--rank-variable", launcher.rank], launcher_log(room)), ranks, True)


def log(room: Path, number: int) -> Path:
    """Where a member's output goes."""
    return room / f"rank{number}.log"


def launcher_log(room: Path) -> Path:
    """Where a launcher's own output goes."""
    return room / "launcher.log"


def _popen(command: list[str], output: Path) -> subprocess.Popen[bytes]:
    try:
        with output.open("ab") as file:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=_environment_variables(os.environ),
                start_new_session=True,
            )
    except OSError as error:
        raise EnvironmentFault(f"{command[0]} cannot be started: {error.strerror}") from None


def _environment_variables(ambient: Mapping[str, str]) -> dict[str, str]:
    """The laboratory's variables without those that would lead a rank to the laboratory's own packages."""
    misleading = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PYTHONINSPECT")
    return {name: value for name, value in ambient.items() if name not in misleading}
