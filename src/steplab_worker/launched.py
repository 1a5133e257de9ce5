"""What a launcher tells a process on its command line: where to speak, its folder, and which member it is."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import List

TOKEN = "token"  # the file in the group's folder with what proves a member


@dataclass(frozen=True)
class Launched:
    """A member as its launcher started it."""

    channel: str  # the laboratory's address
    room: str  # the group's folder on this host, which goes with the group
    number: int  # the rank, or the number of an auxiliary member


def launched(arguments: List[str]) -> Launched:
    """Read the command line; a member that shares its launcher's output gets a log of its own."""
    parser = argparse.ArgumentParser(prog="steplab_worker")
    parser.add_argument("--channel", required=True)
    parser.add_argument("--room", required=True)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--rank", type=int)
    which.add_argument("--rank-variable", help="where a launcher of several ranks tells each its number")
    parser.add_argument("--same-output", action="store_true", help="the launcher sorts what its ranks print")
    parsed = parser.parse_args(arguments)
    if parsed.rank_variable is None:
        return Launched(parsed.channel, parsed.room, parsed.rank)
    member = Launched(parsed.channel, parsed.room, int(os.environ[parsed.rank_variable]))
    if not parsed.same_output:
        _write_to(log_path(member.room, member.number))
    return member


def log_path(room: str, number: int) -> str:
    """Where the output of a member goes."""
    return os.path.join(room, "rank%d.log" % number)


def _write_to(path: str) -> None:
    """Write to a log of one's own: a launcher would mix what its ranks print, and copy it in their time."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
