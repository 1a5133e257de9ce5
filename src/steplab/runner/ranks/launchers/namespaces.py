"""Every member is a process in a host of a cluster in a box, started by the laboratory itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from steplab.core.errors import EnvironmentFault, InputError
from steplab.runner.nets.net import Net, NetHost, find
from steplab.runner.ranks.launching import ProcessLauncher
from steplab.runner.ranks.private_network import PrivateNetwork
from steplab.runner.ranks.processes import Process, spawn


class NamespacesLauncher(ProcessLauncher):
    """Starts members one by one in the namespaces of their hosts, auxiliary ones first: ranks look for them."""

    def processes(self) -> Iterator[Process]:
        """A process for each member."""
        for member in sorted(self.launch.members, key=lambda member: member.is_rank):
            yield self._inside(member.number)

    def _inside(self, number: int) -> Process:
        place = self.launch.placements[number]
        command, log = self.launch.member(number), self.launch.folder.log(number)
        with contextlib.ExitStack() as opened:
            net, host = self._host(place.host)
            try:
                descriptors = opened.enter_context(net.inside(host))
            except OSError as error:
                raise EnvironmentFault(f"the net {net.name!r} is gone ({error.strerror})") from None
            return spawn(command, (number,), log, self.launch.variables, PrivateNetwork(descriptors))

    def _host(self, name: str) -> tuple[Net, NetHost]:
        try:
            net = find(self.launch.reach[name])
        except InputError as error:
            raise EnvironmentFault(str(error)) from None  # a record says so, not the end of the study
        return net, next(host for host in net.hosts if host.name == name)


LAUNCHER = NamespacesLauncher
