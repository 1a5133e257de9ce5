"""What a group of ranks is for; trials with the same key can share it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GroupKey:
    """All that must be the same for trials that one group of ranks serves."""

    framework: str
    environment: str
    workers: int
    threads: int
    processes: int  # one for each worker, or one for all
    strategy: str = ""  # where the framework needs a group for each
    options: tuple[tuple[str, object], ...] = ()  # of the framework, those that say how many auxiliary processes it has
    nodes: int = 1
    placement: str = ""  # net:NAME, or empty: the executor's hosts
    device: str = "auto"

    @property
    def ranks_per_node(self) -> int:
        """Rank processes on each host."""
        return self.processes // self.nodes
