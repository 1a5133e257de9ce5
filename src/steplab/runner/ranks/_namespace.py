"""Makes a network namespace whose only interface is a loopback of its own, and keeps it until standard input ends.

A script with nothing but the standard library, run by `private_network`. It says `ready`, or why it cannot.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def main() -> None:
    """Make it, say so, wait."""
    try:
        _unshare()
        _raise_loopback()
    except OSError as error:
        sys.exit(error.strerror)
    os.write(1, b"ready\n")
    os.read(0, 1)


def _unshare() -> None:
    """A network namespace; without the right to make one, inside a user namespace in which this user stays itself."""
    user, group = os.geteuid(), os.getegid()
    try:
        _call(CLONE_NEWNET)
    except PermissionError:
        _call(CLONE_NEWUSER | CLONE_NEWNET)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _call(flags: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


if __name__ == "__main__":
    main()
