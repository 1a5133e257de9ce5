"""Every member is a process that the laboratory itself starts on this host."""

from __future__ import annotations

from collections.abc import Iterator

from steplab.runner.ranks.launching import ProcessLauncher
from steplab.runner.ranks.processes import Process


class LocalLauncher(ProcessLauncher):
    """Starts members one by one, auxiliary ones first: ranks look for them."""

    def processes(self) -> Iterator[Process]:
        """A process for each member."""
        for member in sorted(self.launch.members, key=lambda member: member.is_rank):
            yield self.alone(member.number)


LAUNCHER = LocalLauncher
