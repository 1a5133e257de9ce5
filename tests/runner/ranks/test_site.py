"""Where members are placed on one host."""

from __future__ import annotations

import socket

from steplab.runner.ranks.members import members
from steplab.runner.ranks.site import Site, this_host
from steplab_worker.placement import Placement


def test_all_members_are_on_this_host_and_meet_on_its_loopback() -> None:
    site = this_host("torch", members("torch", 3, {}))
    assert {(placement.host, placement.address) for placement in site.placements} == {
        (socket.gethostname(), "127.0.0.1")
    }
    assert [placement.local_rank for placement in site.placements] == [0, 1, 2]
    assert site.private


def test_ranks_of_an_mpi_framework_are_launched_together_one_rank_alone_is_not() -> None:
    assert this_host("chainer", members("chainer", 2, {})).launcher == "mpiexec"
    assert this_host("chainer", members("chainer", 1, {})).launcher == "local"


def test_members_elsewhere_have_no_private_network() -> None:
    assert not Site("local", (Placement("a", 0, "10.0.0.1"), Placement("b", 0, "10.0.0.2"))).private
    assert not Site("local", (Placement("a", 0, "127.0.0.1"),), listen="tcp:127.0.0.1:0").private
