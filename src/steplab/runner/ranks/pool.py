"""Warm groups of ranks, kept between trials: frameworks are slow to import."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from steplab.core.errors import EnvironmentFault
from steplab.runner.environments import registry
from steplab.runner.ranks import group_folder
from steplab.runner.ranks.conversation import Conversation, Failure
from steplab.runner.ranks.group import RankGroup
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.site import Locate, NotHere, this_host

MOST_GROUPS = 4


class Pool:
    """Groups by what they are for; idle ranks sleep. A new block of the design gets fresh processes."""

    def __init__(self, python_path: list[str], locate: Locate = this_host) -> None:
        self._groups: OrderedDict[GroupKey, RankGroup] = OrderedDict()
        self._python_path, self._locate = python_path, locate
        self._block: object = None
        group_folder.sweep()

    def group(
        self, key: GroupKey, block: object, start_deadline_s: float, look_around: Callable[[], None]
    ) -> RankGroup | Failure:
        """The group for a key, started if need be."""
        if block != self._block:
            self.close()
            self._block = block
        if key in self._groups:
            self._groups.move_to_end(key)
            return self._groups[key]
        while len(self._groups) >= MOST_GROUPS:
            self._groups.popitem(last=False)[1].close()
        try:
            environment = registry.find(key.framework, key.environment)
            group = self._groups[key] = RankGroup(key, environment, self._python_path, self._locate)
        except NotHere as refusal:
            return Failure("unsupported", str(refusal), 0)
        except EnvironmentFault as fault:
            return Failure("failed", str(fault), 0)
        failure = Conversation(group, time.monotonic() + start_deadline_s, look_around).open()
        if failure is not None:
            self.discard(key)
            return replace(failure, machine=group.machine)
        return group

    def discard(self, key: GroupKey) -> None:
        """Kill a group: after a failure its ranks may sit in a collective for ever."""
        group = self._groups.pop(key, None)
        if group is not None:
            group.kill()

    def close(self) -> None:
        """End all groups."""
        while self._groups:
            self._groups.popitem()[1].close()

    def kill(self) -> None:
        """Kill all groups at once."""
        while self._groups:
            self._groups.popitem()[1].kill()
