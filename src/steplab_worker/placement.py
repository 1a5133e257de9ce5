"""Where a member of a group runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """The place of one process: its host, its number there, where the others reach it, and what it computes on."""

    host: str  # as the system there calls itself
    local_rank: int  # among the processes of its role on that host
    address: str  # of the host, for the group's other members
    device: str = ""  # empty: the framework's first choice, by the local rank
