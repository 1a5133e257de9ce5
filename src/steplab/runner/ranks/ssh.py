"""The system's `ssh` as a way to run worker code on other hosts: what it is told, and what it sends.

It asks for nothing (BatchMode): no password is read, kept or passed on here. What runs there, and what it must know,
goes over its standard input; the command line says only that something will come.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from steplab.core.errors import EnvironmentFault
from steplab.core.home import home
from steplab_worker import remote, variables

CONNECT_S, LOOK_S = 10, 60.0
FAILED = 255  # ssh's own exit code
OPTIONS = (
    "-T", "-x", "-a", "-oBatchMode=yes", f"-oConnectTimeout={CONNECT_S}", "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3", "-oLogLevel=ERROR",
)  # fmt: skip
# Reads how long the program is, and the program; `exec` leaves no shell between.
RECEIVER = "import sys; i = sys.stdin.buffer; exec(i.read(int(i.readline())), {'__name__': 'steplab_remote'})"


@dataclass(frozen=True)
class Looked:
    """What a look at a host told."""

    name: str  # as ssh knows it
    host: str  # as it calls itself
    boot: str
    address: str  # at which this machine reached it
    seen: str  # this machine's address as it saw it
    missing: tuple[str, ...]  # environments


def command(destination: str) -> list[str]:
    """The command that runs, over there, what is sent to its standard input."""
    return ["ssh", *OPTIONS, "--", destination, f"exec python3 -c {shlex.quote(RECEIVER)}"]


def sent(document: Mapping[str, Any], archive: bytes = b"") -> bytes:
    """What goes to the standard input first: our program, its document, the worker."""
    program = Path(remote.__file__).read_bytes()
    said = json.dumps({**document, "archive": len(archive)}).encode()
    return b"%d\n%s%s\n%s" % (len(program), program, said, archive)


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


def look(name: str, pythons: Mapping[str, str]) -> Looked:
    """Look at a host; EnvironmentFault says in one sentence why it cannot be used."""
    wanted = {environment: places(path) for environment, path in pythons.items()}
    document = sent({"task": "look", "pythons": wanted})
    try:
        done = subprocess.run(command(name), input=document, capture_output=True, timeout=LOOK_S, check=False)
        said = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else None
    except FileNotFoundError:
        raise EnvironmentFault("there is no `ssh` here; Debian has it in openssh-client") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"the host {name!r} does not answer within {LOOK_S:.0f} s") from None
    except ValueError:
        said = None
    if said is None:
        raise EnvironmentFault(f"the host {name!r} {_why(done)}")
    return Looked(name, said["host"], said["boot"], said["address"], said["seen"], tuple(said["missing"]))


def _why(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    last = lines[-1] if lines else f"exit code {done.returncode}"
    return f"cannot be reached ({last})" if done.returncode == FAILED else f"has no usable python3 ({last})"


def of_the_laboratory(ambient: Mapping[str, str]) -> dict[str, str]:
    """The variables that a member elsewhere gets: those that the laboratory has set, and those that change frameworks.

    The others say where things are on this host.
    """
    own = {name: value for name, value in ambient.items() if os.environ.get(name) != value}
    return {name: value for name, value in (own | variables.seen(ambient)).items() if name != "TMPDIR"}
