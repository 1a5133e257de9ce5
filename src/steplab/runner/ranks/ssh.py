"""The system's `ssh` as a way to other hosts: how it is called, and a look at what is there.

It asks for nothing (BatchMode): no password is read, kept or passed on here.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steplab.core.errors import EnvironmentFault
from steplab.runner.ranks.keepers import RECEIVER, places, sent

CONNECT_S, LOOK_S = 10, 60.0
FAILED = 255  # ssh's own exit code
OPTIONS = (
    "-T", "-x", "-a", "-oBatchMode=yes", f"-oConnectTimeout={CONNECT_S}", "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3", "-oLogLevel=ERROR",
)  # fmt: skip


@dataclass(frozen=True)
class Looked:
    """What a look at a host told."""

    name: str  # as ssh knows it
    host: str  # as it calls itself
    boot: str
    address: str  # at which this machine reached it
    seen: str  # this machine's address as it saw it
    missing: tuple[str, ...]  # environments
    lacking: tuple[str, ...] = ()  # programs


def command(destination: str) -> list[str]:
    """The command that runs, over there, what is sent to its standard input; `exec` leaves no shell between."""
    return ["ssh", *OPTIONS, "--", destination, f"exec python3 -c {shlex.quote(RECEIVER)}"]


def look(name: str, pythons: Mapping[str, str], programs: Sequence[str] = ()) -> Looked:
    """Look at a host; EnvironmentFault says in one sentence why it cannot be used."""
    wanted = {environment: places(path) for environment, path in pythons.items()}
    document = sent({"task": "look", "pythons": wanted, "programs": list(programs)})
    try:
        done = subprocess.run(command(name), input=document, capture_output=True, timeout=LOOK_S, check=False)
        seen = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else None
    except FileNotFoundError:
        raise EnvironmentFault("there is no `ssh` here; Debian has it in openssh-client") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"the host {name!r} does not answer within {LOOK_S:.0f} s") from None
    except ValueError:
        seen = None
    if seen is None:
        raise EnvironmentFault(f"the host {name!r} {_why(done)}")
    missing, lacking = tuple(seen["missing"]), tuple(seen["lacking"])
    return Looked(name, seen["host"], seen["boot"], seen["address"], seen["seen"], missing, lacking)


def _why(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    last = lines[-1] if lines else f"exit code {done.returncode}"
    return f"cannot be reached ({last})" if done.returncode == FAILED else f"has no usable python3 ({last})"
