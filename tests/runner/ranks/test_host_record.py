"""The hosts of a record: by their first rank, with what other programs did there."""

from __future__ import annotations

from dataclasses import replace

from steplab.runner.ranks.host_record import RankUse, host_parts
from steplab_worker.machine import machine
from steplab_worker.messages import Usage
from steplab_worker.placement import Placement

PLACES = (Placement("a", 0, "10.0.0.1"), Placement("a", 1, "10.0.0.1"), Placement("b", 0, "10.0.0.2"))


def use(boot: str, cpu_s: float, host_s: float | None = 10.0) -> RankUse:
    return RankUse(replace(machine(), boot=boot), {"python": boot}, Usage(cpu_s, 1.0, host_s))


def test_a_host_has_the_time_that_is_not_its_ranks_and_here_what_was_seen() -> None:
    here, there, elsewhere = use("here", 2.0), use("here", 3.0), use("there", 4.0)
    hosts = host_parts({0: here, 1: there, 2: elsewhere}, PLACES, "here", 0.5)
    assert [(host.host, host.other_cpu_s, host.versions["python"]) for host in hosts] == [
        ("a", 0.5, "here"),
        ("b", 6.0, "there"),
    ]


def test_where_auxiliary_members_ran_or_nobody_looked_it_is_not_known() -> None:
    server = Placement("b", 0, "10.0.0.2")
    ranks = {0: use("x", 1.0), 1: use("x", 1.0), 2: use("y", 1.0)}
    assert [host.other_cpu_s for host in host_parts(ranks, (*PLACES, server), "here", 0.5)] == [8.0, None]
    ranks[2] = use("y", 1.0, None)
    assert [host.other_cpu_s for host in host_parts(ranks, PLACES, "here", 0.5)] == [8.0, None]
