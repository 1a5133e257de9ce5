"""One kind of address for both transports."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from steplab_worker import transport

Listen = Callable[[str], str]


def has_ipv6() -> bool:
    """Whether this machine can be reached by itself over IPv6."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.fixture(params=["unix", "tcp", "tcp6"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to listen."""
    if request.param == "tcp6" and not has_ipv6():
        pytest.skip("this machine has no IPv6 address of its own")
    places = {"unix": f"unix:{tmp_path / 'a:b'}", "tcp": "tcp:127.0.0.1:0", "tcp6": "tcp:[::1]:0"}
    return places[request.param]


def test_what_is_sent_to_the_address_arrives(place: str) -> None:
    listener, address = transport.listen(place, 5)
    with listener, transport.connect(address) as one, transport.accept(listener) as other:
        one.sendall(b"there")
        other.sendall(b"back")
        assert (other.recv(10), one.recv(10)) == (b"there", b"back")


def test_a_port_that_was_left_open_becomes_a_real_one() -> None:
    listener, address = transport.listen("tcp:127.0.0.1:0", 5)
    with listener:
        assert address == f"tcp:127.0.0.1:{listener.getsockname()[1]}"


def test_tcp_listens_on_its_address_alone() -> None:
    listener, _ = transport.listen("tcp:127.0.0.1:0", 5)
    with listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_both_ends_of_tcp_send_at_once_and_notice_a_host_that_is_gone() -> None:
    listener, address = transport.listen("tcp:127.0.0.1:0", 5)
    with listener, transport.connect(address) as one, transport.accept(listener) as other:
        for end in (one, other):
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 20


def test_a_path_of_any_length_serves(tmp_path: Path) -> None:
    long = tmp_path / ("a" * 90) / ("b" * 90)
    long.mkdir(parents=True)
    listener, address = transport.listen(f"unix:{long}/channel", 5)
    with listener, transport.connect(address):
        assert address == f"unix:{long}/channel"


@pytest.mark.parametrize(
    "wrong",
    ["", "/tmp/x", "unix:", "udp:a:1", "tcp:", "tcp:host", "tcp:host:", "tcp::80", "tcp:a:x"],
)
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        transport.connect(wrong)


def test_the_kernel_names_the_process_at_the_other_end_of_a_unix_socket(tmp_path: Path) -> None:
    listener, address = transport.listen(f"unix:{tmp_path}/channel", 5)
    with listener, transport.connect(address), transport.accept(listener) as accepted:
        assert transport.peer_pid(accepted) == os.getpid()


def test_over_tcp_nobody_knows_the_process_at_the_other_end() -> None:
    listener, address = transport.listen("tcp:127.0.0.1:0", 5)
    with listener, transport.connect(address), transport.accept(listener) as accepted:
        assert transport.peer_pid(accepted) is None
