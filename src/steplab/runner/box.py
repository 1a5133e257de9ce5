"""This machine as a campaign's hosts: itself, or the hosts of a cluster in a box (`placement = "net:NAME"`)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from steplab.core import catalogue
from steplab.core.errors import EnvironmentFault, InputError
from steplab.core.resolution import Resolved
from steplab.runner.nets import net as nets
from steplab.runner.nets.net import Net
from steplab.runner.nets.shaping import shape
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.launchers import LOCAL
from steplab.runner.ranks.members import Member
from steplab.runner.ranks.site import Host, Site, over_hosts, this_host

LAUNCHER = "namespaces"


class Box:
    """Has the nets that trials run in for itself, with the rate that each trial wants; gives them back as they were."""

    def __init__(self) -> None:
        self._rates: dict[str, str] = {}
        self._occupied: dict[int, int] = {}  # by the nets' owners: what keeps other laboratories out

    def occupy(self, placement: str) -> None:
        """Keep other laboratories out of a net until this one is closed; InputError if one is inside."""
        net = nets.find(placement)
        if net.pid not in self._occupied:
            self._occupied[net.pid] = net.occupy()

    def locate(self, key: GroupKey, members: Sequence[Member]) -> Site:
        """Here, or on the first hosts of the net."""
        if not key.placement:
            return this_host(key, members)
        net = self._net(key.placement)
        hosts = [Host(host.name, host.address, net.name) for host in net.hosts]
        return over_hosts(key, members, hosts, _launcher(key), listen="")

    def prepare(self, resolved: Resolved) -> None:
        """Give the net's lines the trial's rate."""
        if resolved.placement:
            net = self._net(resolved.placement)
            self._shape(net, resolved.rate or net.rate)

    def close(self) -> None:
        """Give the nets their own rates again, and let others in."""
        for net in nets.nets() if self._rates else ():
            if net.name in self._rates:
                self._shape(net, net.rate)
        while self._occupied:
            os.close(self._occupied.popitem()[1])

    def _net(self, placement: str) -> Net:
        try:
            self.occupy(placement)
            return nets.find(placement)
        except (InputError, OSError) as error:
            raise EnvironmentFault(str(error)) from None  # it has been taken down: a record says so

    def _shape(self, net: Net, rate: str) -> None:
        if self._rates.get(net.name) != rate:
            self._rates.pop(net.name, None)
            shape(net, rate)
            self._rates[net.name] = rate


def _launcher(key: GroupKey) -> str:
    """A framework's own launcher, if it has one for several ranks, goes into the net itself."""
    own = catalogue.framework(key.framework).launcher
    return own if key.processes > 1 and own != LOCAL else LAUNCHER
