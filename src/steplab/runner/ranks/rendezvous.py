"""The laboratory's side of the rendezvous: it collects what the members offer and tells each the addresses of all."""

from __future__ import annotations

from collections.abc import Sequence

from steplab_worker.codec import ProtocolError
from steplab_worker.messages import Meet, Met
from steplab_worker.placement import Placement
from steplab_worker.transport import joined


class Meeting:
    """The members that have come so far; when all have, it begins anew."""

    def __init__(self, placements: Sequence[Placement]) -> None:
        self._placements = placements
        self._ports: dict[int, int] = {}

    def come(self, member: int, meet: Meet) -> Met | None:
        """Take what a member offers; once all have come, what each of them is told."""
        if member in self._ports:
            raise ProtocolError("came to the rendezvous again before the others had come")
        self._ports[member] = meet.port
        if len(self._ports) < len(self._placements):
            return None
        ports, self._ports = self._ports, {}
        return Met([_address(placement, ports[number]) for number, placement in enumerate(self._placements)])

    @property
    def awaited(self) -> list[int]:
        """The members that others wait for."""
        return [number for number in range(len(self._placements)) if number not in self._ports] if self._ports else []


def _address(placement: Placement, port: int) -> str:
    return joined(placement.address, port) if port else ""
