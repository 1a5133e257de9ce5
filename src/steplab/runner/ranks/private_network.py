"""A network of their own for the ranks of one host: they meet on a loopback that no other process can reach.

Frameworks' servers ask for no password: whoever reaches TensorFlow's can read and write files as the user who trains.
A network namespace (Linux) keeps everybody else out. Where the system allows none, `obstacle` says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from steplab.core import catalogue, placement
from steplab.runner.ranks import _namespace
from steplab.study.sections import Factor, Study

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class NoPrivateNetwork(Exception):
    """This system allows no network namespace; the message says why."""


@dataclass(frozen=True)
class PrivateNetwork:
    """Open descriptors of the namespaces; they last as long as these, or a process in them."""

    descriptors: tuple[tuple[int, int], ...]  # the kind of a namespace and its descriptor, in the order of entering

    def enter(self) -> None:
        """Put the calling process into it; for a child between fork and exec."""
        assert _libc is not None
        here = Path.cwd()
        for kind, descriptor in self.descriptors:
            if _libc.setns(descriptor, kind):
                raise OSError(ctypes.get_errno(), "a rank cannot enter its private network")
        os.chdir(here)  # a mount namespace begins at its root

    def close(self) -> None:
        """Let it go; it ends with the last process in it."""
        for _, descriptor in self.descriptors:
            os.close(descriptor)


def open_network() -> PrivateNetwork:
    """A new private network."""
    if _libc is None:
        raise NoPrivateNetwork("only Linux has network namespaces")
    command = [sys.executable, "-I", "-S", _namespace.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as keeper:
        assert keeper.stdin and keeper.stdout and keeper.stderr
        if keeper.stdout.readline() != b"ready\n":
            reason = keeper.stderr.read().decode(errors="replace").strip().splitlines()
            raise NoPrivateNetwork((reason or ["no reason given"])[-1])
        places = Path(f"/proc/{keeper.pid}/ns")
        kinds = [("net", _namespace.CLONE_NEWNET)]
        if (places / "user").readlink() != Path("/proc/self/ns/user").readlink():
            kinds.insert(0, ("user", _namespace.CLONE_NEWUSER))
        with contextlib.ExitStack() as opened:
            descriptors = []
            for name, kind in kinds:
                descriptor = os.open(places / name, os.O_RDONLY)
                opened.callback(os.close, descriptor)
                descriptors.append((kind, descriptor))
            opened.pop_all()
        return PrivateNetwork(tuple(descriptors))


@cache
def obstacle() -> str:
    """Why ranks get no private network here, or an empty string."""
    try:
        open_network().close()
    except (NoPrivateNetwork, OSError) as error:
        return str(error)
    return ""


def die_with(laboratory: int) -> None:
    """Let the kernel kill the calling process when the laboratory ends; for a child between fork and exec."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != laboratory:
            os._exit(1)  # it ended meanwhile


def open_doors(study: Study) -> list[str]:
    """What of a study's trials other users of this machine could reach, because ranks get no private network here."""
    doors = doors_of(study)
    return doors if doors and obstacle() else []


def doors_of(study: Study) -> list[str]:
    """What the ranks of a study's trials let in, where they have no private network."""
    frameworks = study.factors.get("framework", ("torch",))
    several = any(_several(study.factors.get(name, (1,))) for name in placement.FACTORS)
    return _doors(map(str, frameworks)) if several and isinstance(frameworks, tuple) else []


def _several(factor: Factor) -> bool:
    return any(level != 1 for level in factor) if isinstance(factor, tuple) else factor.high > 1


def _doors(frameworks: Iterable[str]) -> list[str]:
    declared = [catalogue.framework(name) for name in frameworks]
    return [f"{framework.title}: {framework.doors}" for framework in declared if framework.doors]
