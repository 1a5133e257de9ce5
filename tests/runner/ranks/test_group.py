"""A group of real ranks over either transport: it opens, meets, is closed to strangers and leaves nobody behind."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from steplab.runner.environments import registry
from steplab.runner.ranks.conversation import Conversation
from steplab.runner.ranks.group import RankGroup
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.members import Member
from steplab.runner.ranks.site import Site, this_host
from steplab_worker import transport
from steplab_worker.machine import machine
from steplab_worker.messages import PROTOCOL

START_S = 300.0
KEY = GroupKey("synthetic", "", 2, 1, 2)
LISTEN = {"unix": "", "tcp": "tcp:127.0.0.1:0"}

Open = Callable[[], RankGroup]


@pytest.fixture(params=list(LISTEN))
def group(request: pytest.FixtureRequest, no_orphans: Callable[[], None]) -> Iterator[RankGroup]:
    """Two ranks that have said hello and are ready."""

    def site(key: GroupKey, members: Sequence[Member]) -> Site:
        here = this_host(key, members)
        return Site(here.launcher, here.placements, LISTEN[request.param])

    group = RankGroup(KEY, registry.find("synthetic"), [], site)
    try:
        assert conversation(group).open() is None
        yield group
    finally:
        group.kill()


def conversation(group: RankGroup) -> Conversation:
    return Conversation(group, time.monotonic() + START_S, lambda: None)


def test_both_ranks_open_and_say_on_which_machine_they_are(group: RankGroup) -> None:
    assert sorted(group.hello) == [0, 1]
    for hello in group.hello.values():
        assert (hello.machine.host, hello.machine.cpu) == (machine().host, machine().cpu)


def test_a_stranger_without_the_token_is_closed_and_the_ranks_go_on(group: RankGroup) -> None:
    with transport.connect(group.address) as stranger:
        greeting = {"message": "Hello", "protocol": PROTOCOL, "rank": 0, "pid": 1, "token": "guessed"}
        stranger.sendall(json.dumps(greeting).encode() + b"\n")
        deadline = time.monotonic() + START_S
        while not select.select([stranger], [], [], 0.0)[0]:
            assert time.monotonic() < deadline, "the stranger is still there"
            group.receive(time.monotonic() + 0.1)
        assert stranger.recv(1) == b""
    assert conversation(group).clock_offsets() == {0: 0.0, 1: 0.0}


def test_the_token_is_on_no_command_line_and_in_no_environment_variable(group: RankGroup) -> None:
    for pid in group.pids:
        process = psutil.Process(pid)
        assert group.room.token not in " ".join([*process.cmdline(), *process.environ().values()])


def test_the_token_can_be_read_by_its_owner_alone(group: RankGroup) -> None:
    assert group.room.path.stat().st_mode & 0o077 == 0


def test_a_closed_group_leaves_no_process_and_no_folder(group: RankGroup, no_orphans: Callable[[], None]) -> None:
    group.close()
    no_orphans()
    assert not group.room.path.exists()


def test_a_stopped_rank_is_ended_too(group: RankGroup, no_orphans: Callable[[], None]) -> None:
    os.kill(group.hello[1].pid, signal.SIGSTOP)
    group.close()
    no_orphans()


def test_a_rank_ends_when_its_line_does(group: RankGroup, no_orphans: Callable[[], None]) -> None:
    """As when the laboratory's host is gone: nobody is there who could end it."""
    group._lines.close()
    no_orphans()


def test_the_death_of_a_rank_is_told_with_its_number(group: RankGroup) -> None:
    os.kill(group.hello[1].pid, signal.SIGKILL)
    deadline, event = time.monotonic() + START_S, None
    while event is None and time.monotonic() < deadline:  # it looks up every second
        event = group.receive(deadline)
    assert (getattr(event, "rank", None), getattr(event, "code", None)) == (1, -signal.SIGKILL)


def test_a_room_that_is_gone_does_not_keep_the_ranks_from_ending(
    group: RankGroup, no_orphans: Callable[[], None]
) -> None:
    for path in Path(group.room.path).glob("*.log"):
        path.unlink()
    group.kill()
    no_orphans()
