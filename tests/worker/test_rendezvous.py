"""Where an adapter gets addresses from."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from steplab_worker.job import GroupJob
from steplab_worker.messages import Meet, Met
from steplab_worker.placement import Placement
from steplab_worker.rendezvous import Rendezvous, hold_port


class Laboratory:
    """Answers as if this member, offering what it does, and one at 10.0.0.9:7 had come."""

    def __init__(self) -> None:
        self.offered: list[int] = []

    def ask(self, message: Any, answer: type) -> Met:
        assert isinstance(message, Meet)
        assert answer is Met
        self.offered.append(message.port)
        return Met([f"127.0.0.1:{message.port}" if message.port else "", "10.0.0.9:7"])


@pytest.fixture
def laboratory() -> Laboratory:
    return Laboratory()


def rendezvous(laboratory: Laboratory, address: str = "127.0.0.1") -> Rendezvous:
    places = (Placement("here", 0, address), Placement("there", 0, "10.0.0.9"))
    return Rendezvous(GroupJob("torch", 0, 2, 1, places), laboratory.ask)


def test_a_member_that_offers_nothing_still_hears_of_the_others(laboratory: Laboratory) -> None:
    assert rendezvous(laboratory).meet() == ["", "10.0.0.9:7"]


def test_the_port_that_is_offered_is_held(laboratory: Laboratory) -> None:
    addresses, holder = rendezvous(laboratory).addresses()
    with holder:
        assert laboratory.offered == [holder.getsockname()[1]]
        assert addresses[0] == f"127.0.0.1:{laboratory.offered[0]}"


def test_a_listener_listens_on_the_members_own_address_alone(laboratory: Laboratory) -> None:
    with rendezvous(laboratory).listener() as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        socket.create_connection(listener.getsockname()).close()


def test_the_interface_is_the_one_that_has_the_address(laboratory: Laboratory) -> None:
    assert rendezvous(laboratory).interface == "lo"


def test_an_address_that_this_host_does_not_have_is_told(laboratory: Laboratory) -> None:
    with pytest.raises(OSError, match=r"no network interface of .* has the address 192\.0\.2\.7"):
        rendezvous(laboratory, "192.0.2.7").interface  # noqa: B018


def test_a_held_port_is_nobody_elses_but_can_be_served() -> None:
    with hold_port() as holder:
        port = holder.getsockname()[1]
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.socket() as server, socket.socket() as client:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(("127.0.0.1", port))
            server.listen()
            client.connect(("127.0.0.1", port))
