"""The line between the laboratory and a rank: a Unix socket on one host, TCP between hosts, behind one kind of address.

An address is one string, `unix:PATH` or `tcp:HOST:PORT` (an IPv6 address in brackets).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from typing import Iterator, Optional, Tuple

LONGEST_PATH = 107  # bytes in the address of a Unix socket
# A host that is switched off says nothing: after that many seconds of silence it is asked, so often, so many times.
KEEPALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


def connect(address: str) -> socket.socket:
    """A connection to who listens at the address."""
    scheme, place = split(address)
    if scheme == "tcp":
        return _prepared(socket.create_connection(host_and_port(place)))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short(place) as path:
        connection.connect(path)
    return connection


def listen(address: str, backlog: int) -> Tuple[socket.socket, str]:
    """A listening socket, and the address at which others reach it: port 0 becomes a real one."""
    scheme, place = split(address)
    if scheme == "tcp":
        host, port = host_and_port(place)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=backlog)
        return listener, "tcp:" + joined(host, listener.getsockname()[1])
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short(place) as path:
        listener.bind(path)
    listener.listen(backlog)
    return listener, address


def accept(listener: socket.socket) -> socket.socket:
    """The next connection to a listening socket."""
    connection, _ = listener.accept()
    return _prepared(connection) if connection.family != socket.AF_UNIX else connection


def peer_pid(connection: socket.socket) -> Optional[int]:
    """The process at the other end, by the kernel's word; None where it gives none, as over TCP."""
    if connection.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[0] or None


def split(address: str) -> Tuple[str, str]:
    """The kind of an address and what follows.

    >>> split("unix:/tmp/a:b")
    ('unix', '/tmp/a:b')
    """
    scheme, _, place = address.partition(":")
    if scheme not in ("unix", "tcp") or not place:
        raise ValueError("%r is no address: unix:PATH or tcp:HOST:PORT" % address)
    return scheme, place


def host_and_port(place: str) -> Tuple[str, int]:
    """Both parts of HOST:PORT.

    >>> host_and_port("[::1]:80"), host_and_port("a.b:7")
    (('::1', 80), ('a.b', 7))
    """
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("%r is no HOST:PORT" % place)
    return host.strip("[]"), int(port)


def joined(host: str, port: int) -> str:
    """HOST:PORT.

    >>> joined("::1", 80), joined("a.b", 7)
    ('[::1]:80', 'a.b:7')
    """
    return ("[%s]:%d" if ":" in host else "%s:%d") % (host, port)


def _prepared(connection: socket.socket) -> socket.socket:
    """A TCP connection whose short messages are sent at once, and which notices that the other host is gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


@contextlib.contextmanager
def _short(path: str) -> Iterator[str]:
    """A path for a socket that may be longer than its address can be, as in a cluster's temporary folders."""
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        yield "/proc/self/fd/%d/%s" % (folder, os.path.basename(path))
    finally:
        os.close(folder)
