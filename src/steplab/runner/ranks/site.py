"""Where a group of ranks is: the placement of every member, the launcher, and where the laboratory listens."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steplab.core import catalogue
from steplab.runner.ranks.launchers import LOCAL
from steplab.runner.ranks.members import Member
from steplab_worker.placement import Placement

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Site:
    """The place of a group. An executor that uses other hosts makes other ones."""

    launcher: str  # its name
    placements: tuple[Placement, ...]  # of each member, by its number
    listen: str = ""  # the laboratory's address for members elsewhere; empty: a Unix socket in the group's folder

    @property
    def private(self) -> bool:
        """Whether the members need nothing but this host's loopback, so that they can have a network of their own."""
        return not self.listen and all(placement.address == LOOPBACK for placement in self.placements)


Locate = Callable[[str, Sequence[Member]], Site]


def this_host(framework: str, members: Sequence[Member]) -> Site:
    """All members on this host, started as their framework wants it.

    >>> from steplab.runner.ranks.members import members
    >>> site = this_host("mxnet", members("mxnet", 2, {"servers": 1}))
    >>> site.launcher, [placement.local_rank for placement in site.placements]
    ('local', [0, 1, 0, 0])
    """
    host, seen = socket.gethostname(), Counter[str]()
    placements = []
    for member in members:
        placements.append(Placement(host, seen[member.role], LOOPBACK))
        seen[member.role] += 1
    launcher = catalogue.framework(framework).launcher if seen["rank"] > 1 else LOCAL
    return Site(launcher, tuple(placements))
