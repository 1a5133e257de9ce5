"""A cluster in a box as it stands: its hosts, and the way into each. Its owner's note leads there.

The note is locked as long as the owner lives, so a dead owner's note is known whatever process has its number now.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steplab.core.errors import InputError, allowed
from steplab.core.home import home
from steplab.core.placement import NET
from steplab.runner.nets import _owner

_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class NetHost:
    """A host of a net; `net` and `uts` are the owner's open files."""

    name: str
    address: str
    net: int
    uts: int


@dataclass(frozen=True)
class Net:
    """A net whose owner lived a moment ago."""

    name: str
    rate: str
    delay: str
    pid: int  # of its owner
    user: int | None  # the owner's open file of its user namespace, if it has one
    mounts: int
    switch: int
    hosts: tuple[NetHost, ...]

    @contextlib.contextmanager
    def inside(self, host: NetHost | None) -> Iterator[tuple[tuple[int, int], ...]]:
        """Kinds of namespaces and descriptors for entering a host, or the switch, in the order of entering."""
        wanted = [(_owner.CLONE_NEWUSER, self.user)] if self.user is not None else []
        wanted += [(_owner.CLONE_NEWNS, self.mounts), (_owner.CLONE_NEWNET, host.net if host else self.switch)]
        wanted += [(_owner.CLONE_NEWUTS, host.uts)] if host else []
        with contextlib.ExitStack() as opened:
            descriptors = []
            for kind, number in wanted:
                descriptor = os.open(f"/proc/{self.pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
                opened.callback(os.close, descriptor)
                descriptors.append((kind, descriptor))
            yield tuple(descriptors)

    def occupy(self) -> int:
        """A descriptor that keeps other laboratories out of the net until it is closed; InputError if one is inside.

        The lock is on the switch itself: it needs no file, and goes with whoever holds it.
        """
        descriptor = os.open(f"/proc/{self.pid}/fd/{self.switch}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            what = f"another laboratory is at work in the net {self.name!r}, whose lines cannot be shared"
            raise InputError(what, hint="wait for its end, or make another net with `steplab net up`") from None
        return descriptor


def folder() -> Path:
    """Where the notes are."""
    return home() / "nets"


def note(name: str) -> Path:
    """The note of a net."""
    return folder() / f"{name}.json"


def nets() -> list[Net]:
    """All nets that are up, by name; notes of dead owners are removed."""
    return [net for path in sorted(folder().glob("[!.]*.json")) if (net := _read(path)) is not None]


def find(name: str) -> Net:
    """The net of that name, with or without its prefix."""
    name = name.removeprefix(NET)
    known = {net.name: net for net in nets()}
    if name not in known:
        hint = f"make it with `steplab net up {name} --hosts 3`" + (f"; {allowed(known)}" if known else "")
        raise InputError(f"there is no net {name!r}", hint=hint)
    return known[name]


def sweep() -> None:
    """Remove the notes of owners that are gone."""
    nets()
    for half in folder().glob(".*.json.*"):
        with contextlib.suppress(OSError):
            if not owned(half):
                half.unlink()


def owned(path: Path) -> bool:
    """Whether the process that wrote the note lives."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read(path: Path) -> Net | None:
    try:
        if not owned(path):
            path.unlink()
            return None
        fields = json.loads(path.read_bytes()[:_MAX_BYTES])
        return Net(**{**fields, "hosts": tuple(NetHost(**host) for host in fields["hosts"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError("is no note of a net", where=str(path), hint="remove it") from None
