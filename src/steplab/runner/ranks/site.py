"""Where a group of ranks is: the placement of every member, the launcher, and where the laboratory listens."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from steplab.core import catalogue
from steplab.core.errors import EnvironmentFault
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.launchers import LOCAL
from steplab.runner.ranks.members import Member
from steplab_worker.placement import Placement

LOOPBACK = "127.0.0.1"


class NotHere(EnvironmentFault):
    """These hosts can never serve such a group: its trials are unsupported, not failed."""


@dataclass(frozen=True)
class Host:
    """A host that members can be placed on."""

    name: str
    address: str  # for members on other hosts
    reach: str = ""  # how the launcher gets there, where the name is not enough


@dataclass(frozen=True)
class Site:
    """The place of a group. An executor that uses other hosts makes other ones."""

    launcher: str  # its name
    placements: tuple[Placement, ...]  # of each member, by its number
    listen: str = ""  # the laboratory's address for members elsewhere; empty: a Unix socket in the group's folder
    reach: Mapping[str, str] = field(default_factory=dict)  # how the launcher gets to each host, by its name

    @property
    def private(self) -> bool:
        """Whether the members need nothing but this host's loopback, so that they can have a network of their own."""
        return not self.listen and all(placement.address == LOOPBACK for placement in self.placements)


def launcher_there(key: GroupKey, known: Mapping[str, str]) -> str:
    """What starts a group on other hosts, by what starts its framework's ranks on this one.

    >>> launcher_there(GroupKey("chainer", "", 2, 1, 2), {"local": "ssh", "mpiexec": "mpiexec_ssh"})
    'mpiexec_ssh'
    """
    framework = catalogue.framework(key.framework)
    here = framework.launcher if key.processes > 1 else LOCAL
    if here not in known:
        raise NotHere(f"{framework.title}: its ranks are started by {here}, which does not get to other hosts")
    return known[here]


Locate = Callable[[GroupKey, Sequence[Member]], Site]


def this_host(key: GroupKey, members: Sequence[Member]) -> Site:
    """All members on this host, started as their framework wants it.

    >>> from steplab.runner.ranks.members import members
    >>> site = this_host(GroupKey("mxnet", "", 2, 1, 2), members("mxnet", 2, {"servers": 1}))
    >>> site.launcher, [placement.local_rank for placement in site.placements]
    ('local', [0, 1, 0, 0])
    """
    several = sum(member.is_rank for member in members) > 1
    launcher = catalogue.framework(key.framework).launcher if several else LOCAL
    return Site(launcher, placements(key, members, [Host(socket.gethostname(), LOOPBACK)]))


def over_hosts(key: GroupKey, members: Sequence[Member], hosts: Sequence[Host], launcher: str, listen: str) -> Site:
    """The members spread over the first of these hosts, as many as the group wants."""
    used = hosts[: key.nodes]
    return Site(launcher, placements(key, members, used), listen, {host.name: host.reach for host in used})


def placements(key: GroupKey, members: Sequence[Member], hosts: Sequence[Host]) -> tuple[Placement, ...]:
    """Ranks fill one host after the other; auxiliary members go round, so that no host has all of a role's.

    >>> from steplab.runner.ranks.members import members
    >>> key = GroupKey("mxnet", "", 4, 1, 4, nodes=2)
    >>> placed = placements(key, members("mxnet", 4, {"servers": 2}), [Host("a", "10.0.0.1"), Host("b", "10.0.0.2")])
    >>> [(placement.host, placement.local_rank) for placement in placed]
    [('a', 0), ('a', 1), ('b', 0), ('b', 1), ('a', 0), ('a', 0), ('b', 0)]
    """
    seen, placed, each = Counter[str](), [], max(1, -(-_ranks(members) // len(hosts)))
    for member in members:
        turn = seen[member.role]
        host = hosts[turn // each if member.is_rank else turn % len(hosts)]
        local = turn % each if member.is_rank else turn // len(hosts)
        placed.append(Placement(host.name, local, host.address, _device(key.device, local)))
        seen[member.role] += 1
    return tuple(placed)


def _ranks(members: Sequence[Member]) -> int:
    return sum(member.is_rank for member in members)


def _device(wanted: str, local_rank: int) -> str:
    """The device of a rank: the GPU of its number on its host."""
    return {"auto": "", "cuda": f"cuda:{local_rank}"}.get(wanted, wanted)
