"""What Open MPI calls in the place of a remote shell: it starts Open MPI's daemon on a host, under a keeper there.

`python -m steplab.runner.ranks.mpi_agent FOLDER HOST LINE…`. What it must know stands in the group's folder. It ends
with the `mpiexec` that called it, and with it the keeper's input, the daemon and its ranks.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steplab.runner.ranks.keepers import sent
from steplab.runner.ranks.private_network import die_with

ORDER, WORKER, LOST = "agent.json", "agent.zip", "agent.lost"
FAILED = 255  # of `ssh`: the host cannot be reached any more


@dataclass(frozen=True)
class Order:
    """What an agent must know, by the names of hosts that `mpiexec` uses."""

    ways: Mapping[str, Sequence[str]]  # the command that runs on a host what is sent to its standard input
    names: Mapping[str, str]  # of the hosts
    document: Mapping[str, Any]  # of the keepers, but the line

    def write(self, folder: Path, worker: bytes) -> None:
        """Leave it in the group's folder, which nobody else can read."""
        (folder / WORKER).write_bytes(worker)
        (folder / ORDER).write_text(json.dumps(asdict(self)), encoding="utf-8")


def lost(folder: Path) -> str:
    """The host that an agent has lost, or an empty string."""
    with contextlib.suppress(OSError):
        return (folder / LOST).read_text(encoding="utf-8")
    return ""


def main(folder: Path, host: str, line: str) -> int:
    """Run a line on a host and stay with it."""
    with contextlib.suppress(OSError):
        os.setsid()  # signals that `mpiexec` gets are not meant for us
    die_with(os.getppid())
    order = Order(**json.loads((folder / ORDER).read_text(encoding="utf-8")))
    die = functools.partial(die_with, os.getpid())
    with subprocess.Popen(order.ways[host], stdin=subprocess.PIPE, preexec_fn=die) as process:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(sent({**order.document, "line": line}, (folder / WORKER).read_bytes()))
            process.stdin.flush()
        code = process.wait()
    if code == FAILED:
        with contextlib.suppress(OSError):
            (folder / LOST).write_text(order.names[host], encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], " ".join(sys.argv[3:])))
