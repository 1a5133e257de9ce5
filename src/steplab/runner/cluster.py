"""The hosts that a campaign's trials run on. This machine is one; executors bring others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from steplab.core.resolution import Resolved
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.members import Member
from steplab.runner.ranks.site import Site, this_host


class Cluster(Protocol):
    """Tells where groups of ranks are, and is told of every trial before it begins."""

    def locate(self, key: GroupKey, members: Sequence[Member]) -> Site:
        """The site of a group; EnvironmentFault says why there is none."""

    def prepare(self, resolved: Resolved) -> None:
        """Make the hosts ready for a trial, such as by the rate of their lines; EnvironmentFault if that fails."""

    def close(self) -> None:
        """The campaign has ended: leave the hosts as they were."""


class ThisMachine:
    """All ranks on this host."""

    def locate(self, key: GroupKey, members: Sequence[Member]) -> Site:
        """Here."""
        return this_host(key, members)

    def prepare(self, resolved: Resolved) -> None:
        """There is nothing to do."""

    def close(self) -> None:
        """There is nothing to undo."""
