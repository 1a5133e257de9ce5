"""Every member is a process on another host, started through the system's `ssh` and gone with it."""

from __future__ import annotations

from collections.abc import Mapping

from steplab.runner.ranks import ssh
from steplab.runner.ranks.keepers import KeptLauncher, of_the_laboratory
from steplab.runner.ranks.launching import ProcessEnd

GONE = "the host {} was lost"


class SshLauncher(KeptLauncher):
    """Each member has an `ssh` of its own, whose end is its end."""

    sends_worker = True

    def way(self, host: str) -> list[str]:
        """By the name that ssh knows it by."""
        return ssh.command(self.launch.reach.get(host) or host)

    def variables_there(self) -> Mapping[str, str]:
        """An `ssh` carries none over."""
        return of_the_laboratory(self.launch.variables)

    def ended(self) -> ProcessEnd | None:
        """As of any process; an `ssh` that failed has lost its host."""
        end = super().ended()
        if end is None or end.code != ssh.FAILED:
            return end
        return ProcessEnd(end.members, end.code, GONE.format(self.launch.placements[end.members[0]].host))


LAUNCHER = SshLauncher
