"""The nodes of the allocation that this laboratory is in, as the hosts of its trials."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from functools import cached_property

from steplab.core.errors import EnvironmentFault
from steplab.core.resolution import Resolved
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.launchers import LOCAL
from steplab.runner.ranks.members import Member
from steplab.runner.ranks.site import Host, Site, launcher_there, over_hosts, this_host
from steplab.runner.slurm import commands
from steplab_worker.transport import joined

LAUNCHERS = {LOCAL: "srun", "mpiexec": "mpiexec_srun"}


class Allocation:
    """Groups of one node are on the laboratory's own; others are started by `srun` on theirs."""

    def locate(self, key: GroupKey, members: Sequence[Member]) -> Site:
        """The first nodes of the allocation, as many as a group wants."""
        if key.nodes == 1:
            return this_host(key, members)
        launcher = launcher_there(key, LAUNCHERS)
        if key.nodes > len(self.hosts):
            raise EnvironmentFault(f"the allocation has {len(self.hosts)} nodes, the trial wants {key.nodes}")
        return over_hosts(key, members, self.hosts, launcher, f"tcp:{joined(self.hosts[0].address, 0)}")

    @cached_property
    def hosts(self) -> list[Host]:
        """All nodes, the laboratory's own first: Slurm starts a batch script on the first of them."""
        named = commands.hosts(os.environ.get("SLURM_JOB_NODELIST", ""))
        own = os.environ.get("SLURMD_NODENAME", "")
        return [_host(name) for name in sorted(named, key=lambda name: name != own)]

    def prepare(self, resolved: Resolved) -> None:
        """There is nothing to do."""

    def close(self) -> None:
        """There is nothing to undo."""


def _host(name: str) -> Host:
    """A node with its address in numbers, which ranks need no resolver for."""
    address = commands.address(name)
    try:
        return Host(name, socket.gethostbyname(address), name)
    except OSError:
        raise EnvironmentFault(f"the address {address} of the node {name} cannot be resolved here") from None
