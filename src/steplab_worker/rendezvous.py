"""How ranks find each other: each publishes a word in the group's folder and waits for the words of the others."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import Any, List, Tuple

PATIENCE_S = 120.0
POLL_S = 0.02


class NobodyCame(RuntimeError):
    """A rank waited in vain for the others."""


def meet(folder: str, topic: str, rank: int, workers: int, word: Any, patience_s: float = PATIENCE_S) -> List[Any]:
    """Publish a JSON value under a topic; the values of all ranks, in order."""
    _publish(os.path.join(folder, "%s.%d" % (topic, rank)), word)
    deadline = time.monotonic() + patience_s
    words = []
    for other in range(workers):
        path = os.path.join(folder, "%s.%d" % (topic, other))
        while not os.path.exists(path):
            if time.monotonic() > deadline:
                raise NobodyCame("rank %d waited %.0f s for the address of rank %d" % (rank, patience_s, other))
            time.sleep(POLL_S)
        with open(path, encoding="utf-8") as file:
            words.append(json.load(file))
    return words


def _publish(path: str, word: Any) -> None:
    """Written aside and moved, so that nobody reads half a word."""
    aside = path + ".new"
    with open(aside, "w", encoding="utf-8") as file:
        json.dump(word, file)
    os.replace(aside, path)


def hold_port() -> socket.socket:
    """A socket that keeps a free port for a server of this process.

    It is bound with SO_REUSEPORT and never listens, so nobody else can be given the port in the meantime, while a
    server that also sets SO_REUSEPORT (gRPC does) may bind it and gets every connection.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("", 0))
    return holder


def addresses(folder: str, topic: str, rank: int, workers: int) -> Tuple[List[str], socket.socket]:
    """`host:port` of every rank, each port held by its rank through the socket returned."""
    holder = hold_port()
    mine = {"place": _place(), "host": _own_host(), "port": holder.getsockname()[1]}
    words = meet(folder, topic, rank, workers, mine)
    together = len({word["place"] for word in words}) == 1
    return ["%s:%d" % ("127.0.0.1" if together else word["host"], word["port"]) for word in words], holder


def _place() -> str:
    """What two ranks have in common if they can reach each other through the loopback interface."""
    try:
        return socket.gethostname() + " " + os.readlink("/proc/self/ns/net")
    except OSError:
        return socket.gethostname()


def _own_host() -> str:
    """The address of this host that others can reach: that of the route outward, or of its name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # documentation address (RFC 5737); a datagram socket sends nothing here
        return str(probe.getsockname()[0])
    with contextlib.suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"
