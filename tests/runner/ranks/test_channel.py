"""Lines to the ranks: only who knows the room's token is heard; nonsense of a member is its failure."""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.runner.ranks.channel import GREETING_BYTES, MOST_STRANGERS, Lines, Received
from steplab.runner.ranks.group_folder import GroupFolder
from steplab_worker import codec, transport
from steplab_worker.machine import machine
from steplab_worker.messages import PROTOCOL, Block, ClockRead, Failed, Hello, encode

MACHINE = codec.document(machine())


@pytest.fixture
def room() -> Iterator[GroupFolder]:
    room = GroupFolder()
    yield room
    room.remove()


@pytest.fixture(params=["unix", "tcp"])
def lines(request: pytest.FixtureRequest, room: GroupFolder) -> Iterator[Lines]:
    lines = Lines(room.channel if request.param == "unix" else "tcp:127.0.0.1:0", room.token, 2)
    yield lines
    lines.close()


@pytest.fixture
def connect(room: GroupFolder, lines: Lines) -> Iterator[Callable[..., socket.socket]]:
    """Connect to the group's socket and send some bytes."""
    connections = []

    def connected(*texts: bytes) -> socket.socket:
        connection = transport.connect(lines.address)
        connections.append(connection)
        for text in texts:
            connection.sendall(text)
        return connection

    yield connected
    for connection in connections:
        connection.close()


def listen(lines: Lines) -> None:
    while lines.wait(0.05):
        pass


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(5.0)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def greeting(room: GroupFolder, **changes: object) -> bytes:
    hello = {"message": "Hello", "protocol": PROTOCOL, "rank": 0, "pid": 1, "machine": MACHINE, "token": room.token}
    return json.dumps({**hello, **changes}).encode() + b"\n"


def test_a_member_with_the_token_is_heard(
    room: GroupFolder, lines: Lines, connect: Callable[..., socket.socket]
) -> None:
    connect(greeting(room), b'{"message": "ClockRead", "at": 0.5}\n')
    listen(lines)
    assert [type(said.message) for said in lines.inbox] == [Hello, ClockRead]
    assert lines.connected() == [0]


@pytest.mark.parametrize(
    "changes",
    [
        *({"token": wrong} for wrong in ("x", None, 1, "\ud800")),
        *({"rank": wrong} for wrong in (2, -1, True, "0", [0])),
    ],
)
def test_a_wrong_greeting_is_closed(
    room: GroupFolder, lines: Lines, connect: Callable[..., socket.socket], changes: dict[str, object]
) -> None:
    stranger = connect(greeting(room, **changes))
    listen(lines)
    assert is_closed(stranger)
    assert not lines.inbox
    assert not lines.connected()


def test_a_second_process_cannot_take_a_members_place(
    room: GroupFolder, lines: Lines, connect: Callable[..., socket.socket]
) -> None:
    connect(greeting(room, pid=1))
    listen(lines)
    second = connect(greeting(room, pid=2))
    listen(lines)
    assert is_closed(second)
    assert lines.hello[0].pid == 1


@pytest.mark.parametrize(
    "nonsense", [b"GET / HTTP/1.1\r\n\r\n", b"\n", b"[" * 3000 + b"\n", b"x" * (GREETING_BYTES + 1)]
)
def test_a_strangers_nonsense_is_closed(lines: Lines, connect: Callable[..., socket.socket], nonsense: bytes) -> None:
    stranger = connect(nonsense)
    listen(lines)
    assert is_closed(stranger)


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_nothing_a_stranger_sends_is_heard_or_harms(text: bytes) -> None:
    room = GroupFolder()
    lines = Lines(room.channel, room.token, 2)
    try:
        with transport.connect(lines.address) as stranger:
            stranger.sendall(text + b"\n")
            stranger.shutdown(socket.SHUT_WR)
            while lines.wait(0.01):
                pass
        assert not lines.inbox
    finally:
        lines.close()
        room.remove()


def test_silent_strangers_do_not_pile_up(
    room: GroupFolder, lines: Lines, connect: Callable[..., socket.socket]
) -> None:
    silent = [connect() for _ in range(MOST_STRANGERS + 1)]
    listen(lines)
    connect(greeting(room))
    listen(lines)
    assert is_closed(silent[0])
    assert lines.connected() == [0]


@pytest.mark.parametrize(
    "nonsense", [b"no JSON\n", b"{}\n", b'["message"]\n', b'{"message": 1}\n', b"[" * 100_000 + b"\n"]
)
def test_nonsense_of_a_member_is_its_failure(
    room: GroupFolder, lines: Lines, connect: Callable[..., socket.socket], nonsense: bytes
) -> None:
    connect(greeting(room), nonsense)
    listen(lines)
    last = lines.inbox[-1]
    assert last.rank == 0
    assert isinstance(last.message, Failed)
    assert last.message.reason.startswith("sent ")


def test_the_end_of_a_members_line_is_noticed(
    room: GroupFolder, lines: Lines, connect: Callable[..., socket.socket]
) -> None:
    connect(greeting(room, rank=1)).close()
    listen(lines)
    assert lines.silent == [1]
    assert lines.connection(1) is None


def test_messages_of_any_length_arrive_whole(
    room: GroupFolder, lines: Lines, connect: Callable[..., socket.socket]
) -> None:
    connection = connect(greeting(room))
    listen(lines)
    connection.settimeout(None)
    text = encode(Block("native", [0.125] * 400_000))
    sent, deadline = 0, time.monotonic() + 60
    connection.setblocking(False)
    while (sent < len(text) or len(lines.inbox) < 2) and time.monotonic() < deadline:
        if sent < len(text):
            with contextlib.suppress(BlockingIOError):
                sent += connection.send(text[sent : sent + 100_001])
        lines.wait(0.01)
    assert lines.inbox[1] == Received(0, Block("native", [0.125] * 400_000))


def test_a_temporary_folder_of_any_length_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("a" * 90) / ("b" * 90)
    long.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    room = GroupFolder()
    lines = Lines(room.channel, room.token, 1)
    with transport.connect(lines.address) as probe:
        probe.sendall(greeting(room))
        listen(lines)
    assert lines.connected() == [0]
    assert len(str(room.channel)) > 107
    lines.close()
    room.remove()
