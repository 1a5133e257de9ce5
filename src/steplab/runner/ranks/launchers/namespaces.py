"""Every member is a process in a host of a cluster in a box, started by the laboratory itself."""

from __future__ import annotations

from collections.abc import Iterator

from steplab.runner.ranks.launching import ProcessLauncher
from steplab.runner.ranks.net_host import inside
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
        with inside(self.launch.reach[place.host], place.host) as network:
            return spawn(command, (number,), log, self.launch.variables, network)


LAUNCHER = NamespacesLauncher
