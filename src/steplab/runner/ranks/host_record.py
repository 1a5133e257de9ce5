"""From what the ranks said to the hosts of a record: each one's machine, versions and other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from steplab.core.record import Host
from steplab.core.record_parts import MachineInfo
from steplab_worker.machine import Machine
from steplab_worker.messages import Usage
from steplab_worker.placement import Placement


@dataclass(frozen=True)
class RankUse:
    """A rank's machine and versions, and what its trial took there."""

    machine: Machine
    versions: Mapping[str, str]
    usage: Usage


@lru_cache(maxsize=1024)
def machine_info(machine: Machine) -> MachineInfo:
    """A machine as records hold it; the same for all trials there."""
    return MachineInfo.model_validate(vars(machine))


def host_parts(
    ranks: Mapping[int, RankUse], placements: Sequence[Placement], here: str, other_cpu_s: float | None
) -> list[Host]:
    """The hosts in the order of their first rank.

    What other programs did on hosts of the laboratory's own kernel (its boot is `here`) it has seen itself; of others
    the ranks tell how busy the host was, which is theirs and other programs' time. Where auxiliary members ran as well,
    whose time nobody tells, it is not known; nor where nobody looked, as on a virtual clock.
    """
    by_host: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        by_host.setdefault(placements[rank].host, []).append(rank)
    auxiliary = {placement.host for placement in placements[len(ranks) :]}
    return [
        Host(
            host=name,
            machine=machine_info(ranks[own[0]].machine),
            versions=dict(ranks[own[0]].versions),
            other_cpu_s=other_cpu_s
            if ranks[own[0]].machine.boot == here
            else _others([ranks[rank].usage for rank in own], here and name not in auxiliary),
        )
        for name, own in by_host.items()
    ]


def _others(ranks: Sequence[Usage], known: object) -> float | None:
    host_s = ranks[0].host_s
    return max(0.0, host_s - sum(usage.cpu_s for usage in ranks)) if known and host_s is not None else None
