"""Where a trial's ranks ran: how many on one machine, and how many CPUs that has."""

from __future__ import annotations

from collections import Counter
from typing import Any

from steplab.core.record import Record


def placement(record: Record) -> dict[str, Any]:
    """The columns `cpus` (of the machine, None if unknown) and `ranks_per_host` (of the fullest machine)."""
    hosts = Counter(rank.host for rank in record.ranks)
    return {"cpus": record.machine.cpus, "ranks_per_host": max(hosts.values(), default=0)}
