"""How the members of a group find each other: the only place where an adapter gets addresses from.

Each member tells the laboratory the port that it offers, if any; when all have come, each gets the addresses of all.
The hosts in them are those of the group's placements. It needs nothing but the channel: no common folder, no name
service.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import Any, Callable, List, Tuple

from steplab_worker.job import GroupJob
from steplab_worker.messages import Meet, Met
from steplab_worker.placement import Placement

SIOCGIFADDR = 0x8915
Ask = Callable[..., Any]  # a message and the kind of its answer


class Rendezvous:
    """Where one member of a group meets the others."""

    def __init__(self, group: GroupJob, ask: Ask):
        self.place: Placement = group.placement
        self._ask = ask

    def meet(self, port: int = 0) -> List[str]:
        """Offer a port of this host, or none; the addresses of all members by number, empty where none is offered."""
        met: Met = self._ask(Meet(port), Met)
        return met.addresses

    def addresses(self) -> Tuple[List[str], socket.socket]:
        """An address for a server of each member; the port of this one is held by the socket returned."""
        holder = hold_port()
        return self.meet(holder.getsockname()[1]), holder

    def listener(self) -> socket.socket:
        """A listening socket on this member's own address alone."""
        listener = socket.socket(_family(self.place.address), socket.SOCK_STREAM)
        listener.bind((self.place.address, 0))
        listener.listen(128)
        return listener

    @property
    def interface(self) -> str:
        """The network interface that has this member's address."""
        for _, name in socket.if_nameindex():
            if _address_of(name) == self.place.address:
                return name
        raise OSError("no network interface of %s has the address %s" % (socket.gethostname(), self.place.address))


def hold_port() -> socket.socket:
    """A socket that keeps a free port for a server of this process.

    It is bound with SO_REUSEPORT and never listens, so nobody else can be given the port in the meantime, while a
    server that also sets SO_REUSEPORT (gRPC does) may bind it and gets every connection.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("", 0))
    return holder


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _address_of(interface: str) -> str:
    """An interface's address, empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            return socket.inet_ntoa(fcntl.ioctl(asked, SIOCGIFADDR, request)[20:24])
        except OSError:
            return ""
