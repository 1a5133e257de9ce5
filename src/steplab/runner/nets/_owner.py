"""Owns a cluster in a box: makes its namespaces and holds them by open files, and by nothing else.

A script with nothing but the standard library, run by `nets.making`. No namespace has a name in the file system, so
the kernel takes everything back (interfaces, bridge, queues) when this process ends, however it ends. It reads what to
make from standard input, says `ready` or what is wrong, and is told `keep` or sees the end of its input and ends. Then
it lives until it is asked to end or its note has been removed.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
LOOK_S = 0.5  # how often it looks for its note
_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """The system does not allow it; the message says what."""


def main() -> None:
    """Make the net, say so, keep it; as nobody's child, for it outlives whoever asked."""
    if os.fork():
        os._exit(0)
    spec = json.loads(sys.stdin.readline())
    try:
        note = make(spec)
    except Refused as refused:
        sys.exit(str(refused))
    os.write(1, b"ready\n")
    if sys.stdin.readline() != "keep\n":
        return  # whoever asked for it is gone
    folder = Path(spec["folder"])
    try:
        _write(folder / (spec["name"] + ".json"), note)
    except OSError as error:
        sys.exit(f"{folder} cannot be written ({error.strerror})")
    os.write(1, b"kept\n")
    _stay(folder / (spec["name"] + ".json"))


def make(spec: dict[str, Any]) -> dict[str, Any]:
    """All namespaces; the note that leads to them."""
    user = _own_user_namespace()
    names = [(name, address) for name, address in spec["hosts"]]
    _call("unshare", CLONE_NEWNS)
    _hosts_file(names)
    mounts = _held("mnt")
    _call("unshare", CLONE_NEWNET | CLONE_NEWUTS)
    _name("{}-switch".format(spec["name"]))
    switch = _held("net")
    _ip("link add br0 type bridge", "link set br0 up", "link set lo up")
    hosts = [_host(number, name, address, switch) for number, (name, address) in enumerate(names)]
    if _libc.setns(switch, CLONE_NEWNET):
        raise Refused(os.strerror(ctypes.get_errno()))
    _ip(*(line for number in range(len(hosts)) for line in _port(number)))
    own = {"pid": os.getpid(), "user": user, "mounts": mounts, "switch": switch, "hosts": hosts}
    return {**{key: spec[key] for key in ("name", "rate", "delay")}, **own}


def _own_user_namespace() -> int | None:
    """Nothing with the rights of root; otherwise a user namespace in which this user is root, held open."""
    user, group = os.geteuid(), os.getegid()
    if user == 0 and not _libc.unshare(CLONE_NEWUTS):
        return None
    _call("unshare", CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
    return _held("user")


def _hosts_file(names: list[tuple[str, str]]) -> None:
    """The hosts know each other's names, and no others."""
    if _libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        raise Refused(f"no mount namespace can be made ({os.strerror(ctypes.get_errno())})")
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names)]
    with tempfile.NamedTemporaryFile("w", prefix="steplab-hosts-") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        Path(file.name).chmod(0o644)
        if _libc.mount(os.fsencode(file.name), b"/etc/hosts", None, MS_BIND, None):
            raise Refused(f"/etc/hosts cannot be replaced ({os.strerror(ctypes.get_errno())})")
    # The file is gone from its folder now, and stays as long as it is mounted.


def _host(number: int, name: str, address: str, switch: int) -> dict[str, Any]:
    """A host with one line to the switch."""
    _call("unshare", CLONE_NEWNET | CLONE_NEWUTS)
    _name(name)
    _ip(
        "link set lo up",
        f"link add eth0 type veth peer name port{number} netns /proc/{os.getpid()}/fd/{switch}",
        f"addr add {address}/24 dev eth0",
        "link set eth0 up",
    )
    return {"name": name, "address": address, "net": _held("net"), "uts": _held("uts")}


def _port(number: int) -> tuple[str, str]:
    return f"link set port{number} master br0", f"link set port{number} up"


def _name(name: str) -> None:
    encoded = name.encode()
    if _libc.sethostname(encoded, len(encoded)):
        raise Refused(f"a host cannot be given a name ({os.strerror(ctypes.get_errno())})")


def _held(kind: str) -> int:
    """The present namespace of that kind, held open."""
    return os.open("/proc/self/ns/" + kind, os.O_RDONLY | os.O_CLOEXEC)


def _ip(*lines: str) -> None:
    """Tell `ip` all of it at once, in the present network namespace."""
    try:
        done = subprocess.run(
            ["ip", "-batch", "-"], input="\n".join(lines), text=True, capture_output=True, check=False
        )
    except OSError as error:
        raise Refused(f"`ip` cannot be started ({error.strerror}); Debian has it in iproute2") from None
    if done.returncode:
        raise Refused("`ip` says: {}".format((done.stderr.strip().splitlines() or ["nothing"])[0]))


def _call(name: str, argument: int) -> None:
    if getattr(_libc, name)(argument):
        raise Refused(f"this system allows no namespaces to this user ({os.strerror(ctypes.get_errno())})")


def _write(path: Path, note: dict[str, Any]) -> None:
    """The note, whole or not at all, and never in place of another one; locked as long as this process lives."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)  # kept open on purpose
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(file, json.dumps(note).encode())
    try:
        os.link(half, path)
    finally:
        half.unlink()


def _stay(note: Path) -> None:
    """Until it is asked to end, or the note is gone, and with it the way here."""
    for name in ("SIGINT", "SIGHUP"):  # a terminal's business, not ours
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    own = note.stat().st_ino
    while True:
        time.sleep(LOOK_S)
        try:
            if note.stat().st_ino != own:
                return
        except OSError:
            return


if __name__ == "__main__":
    main()
