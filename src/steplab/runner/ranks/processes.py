"""The processes of a group: ranks, started one by one or by a launcher, and the auxiliary roles beside them."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from steplab.core import catalogue
from steplab.core.errors import EnvironmentFault
from steplab.core.home import home
from steplab.runner.environments import worker
from steplab.runner.ranks.group_folder import GroupFolder
from steplab.runner.ranks.private_network import PrivateNetwork, die_with


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


def members(framework: str, ranks: int, options: Mapping[str, object]) -> list[Member]:
    """The ranks of a group and, if there are several, the roles that its framework declares.

    >>> [member.name for member in members("mxnet", 2, {"servers": 1})]
    ['rank 0', 'rank 1', 'scheduler 0', 'server 0']
    """
    roles = catalogue.framework(framework).auxiliary(ranks, options)
    wanted = [("rank", index) for index in range(ranks)]
    wanted += [(role, index) for role, count in roles.items() for index in range(count)]
    return [Member(number, role, f"{role} {index}") for number, (role, index) in enumerate(wanted)]


@dataclass(frozen=True)
class Setting:
    """What a group's processes are started with."""

    worker: list[str]  # the command of a rank, without its number
    room: GroupFolder
    network: PrivateNetwork | None

    def variables(self, framework: str) -> dict[str, str]:
        """The processes' environment variables: temporary files in the room, caches worth keeping at home."""
        caches = {name: str(home() / "caches" / framework) for name in catalogue.framework(framework).caches}
        return {**caches, **worker.variables(), "TMPDIR": str(self.room.temporary)}

    def enter(self, laboratory: int) -> None:
        """Called in each new process before its program: the group's network, and an end with the laboratory."""
        if self.network is not None:
            self.network.enter()
        die_with(laboratory)  # last: entering another user namespace would forget it


def start(framework: str, setting: Setting, group: list[Member]) -> Iterator[Process]:
    """Start a group's processes, auxiliary ones first; the channel is in the room."""
    ranks = tuple(member.number for member in group if member.role == "rank")
    others = [member.number for member in group if member.role != "rank"]
    room, variables = setting.room, setting.variables(framework)
    command = [*setting.worker, "--channel", str(room.channel)]
    launcher = catalogue.framework(framework).launcher if len(ranks) > 1 else None

    def popen(words: list[str], output: Path) -> subprocess.Popen[bytes]:
        own = launcher.variables if launcher else {}
        return _popen(words, output, {**variables, **own}, functools.partial(setting.enter, os.getpid()))

    for number in others if launcher else [*others, *ranks]:
        yield Process(popen([*command, "--rank", str(number)], log(room.path, number)), (number,))
    if launcher:
        memory = str(room.shared_memory())
        words = {"{processes}": str(len(ranks)), "{room}": str(room.path), "{memory}": memory}
        prefix = [words.get(word, word) for word in launcher.command]
        mine = popen([*prefix, *command, "--rank-variable", launcher.rank], launcher_log(room.path))
        yield Process(mine, ranks, True)


def log(room: Path, number: int) -> Path:
    """Where a member's output goes."""
    return room / f"rank{number}.log"


def launcher_log(room: Path) -> Path:
    """Where a launcher's own output goes."""
    return room / "launcher.log"


def _popen(
    command: list[str], output: Path, variables: dict[str, str], before: Callable[[], None]
) -> subprocess.Popen[bytes]:
    try:
        with output.open("ab") as file:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=variables,
                start_new_session=True,
                preexec_fn=before,
            )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise EnvironmentFault(f"{command[0]} cannot be started: {reason}") from None
