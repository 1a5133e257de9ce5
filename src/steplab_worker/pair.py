"""A plain TCP line between the first and the last rank: what the wires do, whatever framework there is."""

from __future__ import annotations

import socket
from typing import Any, Callable, List, Optional

from steplab_worker.messages import Offer, Offered
from steplab_worker.placement import Placement
from steplab_worker.transport import host_and_port, joined

Ask = Callable[[Any, Any], Any]
PATIENCE_S = 60.0


class Pair:
    """One end of the line; ranks between the two have none."""

    def __init__(self, line: Optional[socket.socket]):
        self.line = line
        self.room = memoryview(bytearray(0))

    def send(self, count: int) -> None:
        """Give the other end that many bytes."""
        if self.line is not None:
            self.line.sendall(self._space(count))

    def receive(self, count: int) -> None:
        """Take that many bytes from the other end."""
        space, have = self._space(count), 0
        while self.line is not None and have < count:
            got = self.line.recv_into(space[have:])
            if not got:
                raise ConnectionError("the other rank of the pair has gone")
            have += got

    def _space(self, count: int) -> memoryview:
        if len(self.room) < count:
            self.room = memoryview(bytearray(count))
        return self.room[:count]

    def close(self) -> None:
        """Hang up."""
        if self.line is not None:
            self.line.close()


def connect(ask: Ask, place: Placement, rank: int) -> Pair:
    """This rank's end: the first listens where others reach it, the last calls; the laboratory passes addresses on."""
    if rank:
        return _calling(ask(Offer(""), Offered).addresses, rank)
    family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((place.address, 0))
        listener.listen(1)
        listener.settimeout(PATIENCE_S)
        offered: List[str] = ask(Offer(joined(place.address, listener.getsockname()[1])), Offered).addresses
        return Pair(_ready(listener.accept()[0])) if len(offered) > 1 else Pair(None)


def _calling(addresses: List[str], rank: int) -> Pair:
    if rank < len(addresses) - 1:
        return Pair(None)
    return Pair(_ready(socket.create_connection(host_and_port(addresses[0]), PATIENCE_S)))


def _ready(line: socket.socket) -> socket.socket:
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.settimeout(None)
    return line
