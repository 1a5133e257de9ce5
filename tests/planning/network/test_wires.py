"""A profile as a function of bytes, ranks and hosts."""

from __future__ import annotations

import pytest

from steplab.core.errors import InputError
from steplab.planning.network.profile import Collective, Link, Point, Profile
from steplab.planning.network.wires import Wires

SIZES = [1024 * 4**power for power in range(9)]


def collective(ranks: int, latency: float, speed: float, rate: str = "", nodes: int = 2) -> Collective:
    points = [Point(bytes=size, seconds=latency + size / speed, cpu_seconds=size / 1e10) for size in SIZES]
    return Collective(ranks=ranks, nodes=nodes, rate=rate, sizes=points)


def test_measured_ranks_take_what_was_measured() -> None:
    exchange = Wires(Profile(name="x", ranks=[collective(2, 1e-3, 1e8)])).exchange(1e6, 2, 2)
    assert (exchange.seconds, exchange.latency) == pytest.approx((1e-3 + 1e-2, 1e-3))
    assert exchange.cpu_seconds == pytest.approx(1e-4, rel=1e-3)
    assert exchange.inside


def test_other_ranks_follow_by_the_rings_law_and_are_outside() -> None:
    wires = Wires(Profile(name="x", ranks=[collective(2, 1e-3, 1e8)]))
    two, eight = wires.exchange(1e6, 2, 2), wires.exchange(1e6, 8, 8)
    assert eight.seconds == pytest.approx(7 * 1e-3 + 1e-2 * (7 / 8) / (1 / 2))
    assert not eight.inside
    assert eight.high / eight.seconds > two.high / two.seconds


def test_a_data_sheet_is_a_ring_over_each_hosts_line() -> None:
    link = Link(bandwidth="100 Mbit/s", latency="1 ms", nodes=4)
    wires = Wires(Profile(name="x", link=link))
    exchange = wires.exchange(12.5e6, 4, 4)
    assert exchange.seconds == pytest.approx(2 * 3 * 1e-3 + 2 * 3 / 4 * 1.0)
    assert exchange.low < exchange.seconds < exchange.high
    assert exchange.inside
    assert not wires.exchange(12.5e6, 8, 8).inside
    assert wires.exchange(12.5e6, 4, 1).seconds == 0.0


def test_a_rate_must_be_one_of_the_profile() -> None:
    profile = Profile(name="x", ranks=[collective(2, 1e-3, 1e8, "1gbit"), collective(2, 1e-3, 1e7, "100mbit")])
    assert Wires(profile, "100mbit").exchange(1e6, 2, 2).seconds > Wires(profile, "1gbit").exchange(1e6, 2, 2).seconds
    with pytest.raises(InputError, match=r"no rate '10gbit'.*1gbit"):
        Wires(profile, "10gbit")


def test_a_what_if_scales_latency_and_moving_apart() -> None:
    profile = Profile(name="x", ranks=[collective(2, 1e-3, 1e8)])
    assert Wires(profile, bandwidth=2.0).exchange(1e6, 2, 2).seconds == pytest.approx(1e-3 + 5e-3)
    assert Wires(profile, latency=3.0).exchange(1e6, 2, 2).seconds == pytest.approx(3e-3 + 1e-2)


def test_ranks_of_one_host_tell_nothing_of_several() -> None:
    profile = Profile(name="x", ranks=[collective(2, 1e-3, 1e8, nodes=1)])
    with pytest.raises(InputError, match="no exchange between hosts"):
        Wires(profile).exchange(1e6, 2, 2)


def test_as_many_ranks_on_other_hosts_are_another_curve() -> None:
    profile = Profile(name="x", ranks=[collective(4, 1e-3, 1e8, nodes=2), collective(4, 1e-3, 1e7, nodes=4)])
    assert Wires(profile).exchange(1e6, 4, 2).seconds == pytest.approx(1e-3 + 1e-2)
    assert Wires(profile).exchange(1e6, 4, 4).seconds == pytest.approx(1e-3 + 1e-1)


def test_a_larger_message_than_any_measured_is_outside() -> None:
    assert not Wires(Profile(name="x", ranks=[collective(2, 1e-3, 1e8)])).exchange(2.0 * SIZES[-1], 2, 2).inside


def test_a_link_has_no_rates() -> None:
    link = Link(bandwidth="100 Mbit/s", latency="1 ms", nodes=4)
    with pytest.raises(InputError, match="has a link and no rates"):
        Wires(Profile(name="x", link=link), "1gbit")
