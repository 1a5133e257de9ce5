"""A laboratory that does not keep to the protocol: a real rank says what was wrong and ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from steplab.core.catalogue import WORKER
from steplab.runner.ranks.channel import Lines
from steplab.runner.ranks.group_folder import GroupFolder
from steplab_worker import networks
from steplab_worker.adapters import synthetic
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.messages import (
    PROTOCOL,
    Block,
    ClockRead,
    Failed,
    Hello,
    Message,
    Open,
    Opened,
    Proceed,
    ReadClock,
    RunTrial,
    encode,
)
from steplab_worker.placement import Placement

PATIENCE_S = 180.0
OPEN = encode(Open(GroupJob("synthetic", 0, 1, 1, (Placement("here", 0, "127.0.0.1"),))))
OPTIONS = {name: said["default"] for name, said in synthetic.DECLARATION["factors"].items()}
NETWORK = {name: option.default for name, option in networks.module("mlp").OPTIONS.items()}
JOB = TrialJob(
    "t",
    0,
    "step",
    {},
    "mlp",
    NETWORK,
    (1, 28, 28),
    10,
    "mnist",
    "",
    4,
    1,
    "sync",
    "sgd",
    0.1,
    0,
    1,
    OPTIONS,
    False,
    0,
    1,
)
TRIAL = encode(RunTrial(JOB))


@pytest.fixture
def folder() -> Iterator[GroupFolder]:
    folder = GroupFolder()
    yield folder
    folder.remove()


@pytest.fixture
def lines(folder: GroupFolder) -> Iterator[Lines]:
    lines = Lines(folder.channel, folder.token, 1)
    yield lines
    lines.close()


@pytest.fixture
def rank(folder: GroupFolder, lines: Lines) -> Iterator[subprocess.Popen[bytes]]:
    """A real rank that has greeted."""
    command = [sys.executable, WORKER, "--channel", lines.address, "--room", str(folder.path), "--rank", "0"]
    # A session of its own: when its line ends, a rank kills its process group.
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        assert isinstance(heard(lines), Hello)
        yield process
        process.kill()


def heard(lines: Lines) -> Message:
    """The next message of the rank."""
    deadline = time.monotonic() + PATIENCE_S
    while not lines.inbox:
        lines.wait(deadline - time.monotonic())
        assert time.monotonic() < deadline, "the rank says nothing"
    return lines.inbox.popleft().message


def say(lines: Lines, *texts: bytes) -> None:
    connection = lines.connection(0)
    assert connection is not None
    connection.sendall(b"".join(texts))


def changed(line: bytes, **fields: object) -> bytes:
    return json.dumps({**json.loads(line), **fields}).encode() + b"\n"


@pytest.mark.parametrize(
    ("orders", "said", "reason"),
    [
        ([b"nonsense\n"], [], "the laboratory sent what is no JSON"),
        ([changed(OPEN, protocol=PROTOCOL + 1)], [], "the laboratory speaks protocol 6, this side 5; the same version"),
        ([changed(OPEN, group={})], [], "the laboratory sent a wrong Open: group.framework: is missing"),
        ([encode(ClockRead(1.0))], [], "the laboratory sent 'ClockRead', which is no message"),
        ([TRIAL], [], "the laboratory sent RunTrial out of turn"),
        ([encode(ReadClock()), encode(Proceed())], [ClockRead], "the laboratory sent Proceed out of turn"),
        ([OPEN, OPEN], [Opened], "the laboratory sent Open out of turn"),
        ([OPEN, changed(TRIAL, job=[])], [Opened], "the laboratory sent a wrong RunTrial: job: is a list, where an"),
        ([OPEN, TRIAL, encode(Proceed())], [Opened, Block], "the laboratory sent Proceed where Iterate was due"),
        ([OPEN, TRIAL, b"{}\n"], [Opened, Block], "the laboratory sent no name, which is no message"),
    ],
)
def test_nonsense_of_the_laboratory_is_one_clear_end(
    rank: subprocess.Popen[bytes], lines: Lines, orders: list[bytes], said: list[type[Message]], reason: str
) -> None:
    say(lines, *orders)
    assert [type(heard(lines)) for _ in said] == said
    failed = heard(lines)
    assert isinstance(failed, Failed)
    assert (failed.status, failed.reason[: len(reason)]) == ("failed", reason)
    assert rank.wait(PATIENCE_S) == 1
