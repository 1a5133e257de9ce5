"""A process that the laboratory started: alone in its session, dead with the laboratory, with a log of its own."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steplab.core.errors import EnvironmentFault
from steplab.runner.ranks.private_network import PrivateNetwork, die_with


@dataclass(frozen=True)
class Process:
    """A process for one member, or for several if it is a launcher of its own."""

    popen: subprocess.Popen[bytes]
    members: tuple[int, ...]

    @property
    def pid(self) -> int:
        """Its number in the system, which is that of its session, too."""
        return self.popen.pid

    def code(self) -> int | None:
        """Its exit code once it has ended; minus the signal, if one ended it."""
        return self.popen.poll()

    def wait(self, deadline: float) -> bool:
        """Wait for its end, at most until then (monotonic); whether it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(max(0.0, deadline - time.monotonic()))
        return self.popen.returncode is not None

    def signal(self, number: signal.Signals) -> None:
        """Signal its whole process group (its session), even if the process itself is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill its whole process group and return when the process is gone."""
        self.signal(signal.SIGKILL)
        self.popen.wait()


def spawn(
    command: Sequence[str],
    members: tuple[int, ...],
    log: Path,
    variables: Mapping[str, str],
    network: PrivateNetwork | None = None,
    stdin: int = subprocess.DEVNULL,
    output: int | None = None,
) -> Process:
    """Start a command for these members, with nothing on its input and its output in the log, unless told otherwise."""
    try:
        with log.open("ab") as file:
            popen = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=file if output is None else output,
                stderr=file if output is None else subprocess.STDOUT,
                env=dict(variables),
                start_new_session=True,
                preexec_fn=functools.partial(_enter, network, os.getpid()),
            )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise EnvironmentFault(f"{command[0]} cannot be started: {reason}") from None
    return Process(popen, members)


def _enter(network: PrivateNetwork | None, laboratory: int) -> None:
    """Called in a new process before its program: the group's network, and an end with the laboratory."""
    if network is not None:
        network.enter()
    die_with(laboratory)  # last: entering another user namespace would forget it
