"""Making and ending a cluster in a box."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from steplab.core.errors import EnvironmentFault, InputError
from steplab.core.placement import NAME, UNSHAPED, rate_problem
from steplab.runner.nets import _owner, shaping
from steplab.runner.nets.net import Net, find, folder, nets, note, owned, sweep

MOST_HOSTS = 64
SUBNET = "10.77.0."  # known to these hosts alone: no route leads there or away
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Wish:
    """What a net is to be, checked."""

    name: str
    hosts: int
    rate: str = UNSHAPED
    delay: str = ""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            hint = "allowed: lower-case letters, digits and dashes, at most 32"
            raise InputError(f"{self.name!r} is no name of a net", hint=hint)
        if not 1 <= self.hosts <= MOST_HOSTS:
            raise InputError(f"a net of {self.hosts} hosts cannot be made", hint=f"allowed: 1 to {MOST_HOSTS}")
        if problem := rate_problem(self.rate):
            raise InputError(f"the rate {self.rate!r} {problem}")
        if self.delay and not re.fullmatch(r"\d{1,4}(\.\d{1,3})?(us|ms|s)", self.delay):
            raise InputError(f"the delay {self.delay!r} must be a time such as '1ms'")


def up(name: str, hosts: int = 2, rate: str = UNSHAPED, delay: str = "") -> Net:
    """Make a net; it stays until `down`, or until its owner process is ended."""
    wish = Wish(name, hosts, rate or UNSHAPED, delay)
    sweep()
    if name in {net.name for net in nets()}:
        raise InputError(f"there is a net {name!r} already", hint=f"end it with `steplab net down {name}`")
    with _start(wish) as owner:  # whose end of the line ends it, too, before it has promised to keep the net
        net = _kept(owner, name)
    try:
        shaping.shape(net, wish.rate)
    except BaseException:
        down(name)
        raise
    return net


def down(name: str) -> Net:
    """End a net and every process in it; it is gone when this returns."""
    net = find(name)
    inside = _processes(net)
    for pid in (net.pid, *inside):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.suppress(FileNotFoundError):
        while owned(note(net.name)):
            if time.monotonic() > deadline:
                raise EnvironmentFault(f"the owner of the net {net.name!r}, process {net.pid}, does not end")
            time.sleep(0.01)
        note(net.name).unlink()
    return net


def _processes(net: Net) -> list[int]:
    """The processes in a net's hosts."""
    with contextlib.suppress(OSError):
        networks = {Path(f"/proc/{net.pid}/fd/{host.net}").stat().st_ino for host in net.hosts}
        return [pid for pid in _all_processes() if _network(pid) in networks]
    return []


def _all_processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _network(pid: int) -> int:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    return 0


def _start(wish: Wish) -> subprocess.Popen[str]:
    folder().mkdir(parents=True, exist_ok=True)
    hosts = [(f"{wish.name}-{number}", f"{SUBNET}{number}") for number in range(1, wish.hosts + 1)]
    spec = {"name": wish.name, "rate": wish.rate, "delay": wish.delay, "hosts": hosts, "folder": str(folder())}
    owner = subprocess.Popen(
        [sys.executable, "-I", "-S", _owner.__file__],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    _say(owner, json.dumps(spec))
    return owner


def _kept(owner: subprocess.Popen[str], name: str) -> Net:
    """The net, when its owner has promised to keep it."""
    assert owner.stdout is not None
    if owner.stdout.readline() != "ready\n":
        raise _refusal(owner)
    _say(owner, "keep")
    if owner.stdout.readline() != "kept\n":
        raise _refusal(owner)
    return find(name)


def _say(owner: subprocess.Popen[str], line: str) -> None:
    assert owner.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # its last word will say why
        owner.stdin.write(line + "\n")
        owner.stdin.flush()


def _refusal(owner: subprocess.Popen[str]) -> EnvironmentFault:
    assert owner.stderr is not None
    lines = owner.stderr.read().strip().splitlines()
    return EnvironmentFault(f"the net cannot be made: {lines[-1] if lines else 'its owner ended without a word'}")
