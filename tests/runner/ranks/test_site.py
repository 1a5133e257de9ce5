"""Where members are placed on one host."""

from __future__ import annotations

import socket

from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.members import members
from steplab.runner.ranks.site import Host, Site, over_hosts, this_host
from steplab_worker.placement import Placement


def test_all_members_are_on_this_host_and_meet_on_its_loopback() -> None:
    site = this_host(GroupKey("torch", "", 3, 1, 3), members("torch", 3, {}))
    assert {(placement.host, placement.address) for placement in site.placements} == {
        (socket.gethostname(), "127.0.0.1")
    }
    assert [placement.local_rank for placement in site.placements] == [0, 1, 2]
    assert site.private


def test_ranks_of_an_mpi_framework_are_launched_together_one_rank_alone_is_not() -> None:
    assert this_host(GroupKey("chainer", "", 2, 1, 2), members("chainer", 2, {})).launcher == "mpiexec"
    assert this_host(GroupKey("chainer", "", 1, 1, 1), members("chainer", 1, {})).launcher == "local"


def test_ranks_fill_one_host_after_the_other_with_the_gpu_of_their_number() -> None:
    key = GroupKey("torch", "", 4, 1, 4, nodes=2, device="cuda")
    hosts = [Host("a", "10.0.0.1", "via-a"), Host("b", "10.0.0.2"), Host("c", "10.0.0.3")]
    site = over_hosts(key, members("torch", 4, {}), hosts, "ssh", "tcp:10.0.0.9:0")
    assert site.placements == (
        Placement("a", 0, "10.0.0.1", "cuda:0"),
        Placement("a", 1, "10.0.0.1", "cuda:1"),
        Placement("b", 0, "10.0.0.2", "cuda:0"),
        Placement("b", 1, "10.0.0.2", "cuda:1"),
    )
    assert dict(site.reach) == {"a": "via-a", "b": ""}
    assert not site.private


def test_members_elsewhere_have_no_private_network() -> None:
    assert not Site("local", (Placement("a", 0, "10.0.0.1"), Placement("b", 0, "10.0.0.2"))).private
    assert not Site("local", (Placement("a", 0, "127.0.0.1"),), listen="tcp:127.0.0.1:0").private
