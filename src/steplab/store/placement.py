"""Where a trial's workers ran: on how many nodes, how many on one machine, and how many CPUs that has."""

from __future__ import annotations

from collections import Counter
from typing import Any

from steplab.core.record import Record


def placement(record: Record) -> dict[str, Any]:
    """The columns `cpus` (of the machine, None if unknown), `ranks_per_host` (the fullest's), `rank_hosts` and `nodes`.

    Hosts of one kernel, as those of a cluster in a box, share its CPUs. A process may hold several workers, each with
    threads of its own, and counts as so many ranks. `rank_hosts` is each process's, with commas.
    """
    machines = Counter(_machine(record, rank.host) for rank in record.ranks)
    hosts = [rank.host for rank in record.ranks]
    fullest = max(machines.values(), default=0) * workers_of_a_rank(record)
    row = {"cpus": record.machine.cpus, "ranks_per_host": fullest, "rank_hosts": ",".join(hosts)}
    # A study's own factor stays what it is; an imported record does not say on how many hosts it ran.
    known = record.config.get("nodes", record.resolved.nodes)
    return row if known is None else row | {"nodes": known}


def workers_of_a_rank(record: Record) -> int:
    """Workers in each process; 1 of an imported record, whose source may have one time for all of them."""
    if record.status != "ok" or record.measure.imported is not None:
        return 1
    return max(int(record.resolved.workers or 1) // len(record.ranks), 1)


def _machine(record: Record, name: str) -> str:
    return next((host.machine.boot or name for host in record.hosts if host.host == name), name)
