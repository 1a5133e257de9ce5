"""A rank that the kernel killed for lack of memory is told apart from one that somebody killed."""

from __future__ import annotations

import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from steplab.runner.ranks import conversation
from steplab.runner.ranks.conversation import Conversation
from steplab.runner.ranks.group import Ended
from steplab_worker.machine import machine

BEFORE = 3  # processes that the kernel had killed when the trial began


def told(ended: Ended, boot: str, count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Status and reason of a rank that ended so on a kernel, when this one's count is that."""
    hello = SimpleNamespace(machine=replace(machine(), boot=boot))
    group: Any = SimpleNamespace(hello={0: hello}, name=lambda rank: f"rank {rank}", tail=lambda rank: "")
    monkeypatch.setattr(conversation, "oom_kills", lambda: count)
    failure = Conversation(group, 0.0, lambda: None, BEFORE)._failure(ended, "in the trial")
    return failure.status, failure.reason


KILLED = Ended(0, -signal.SIGKILL)
HERE = machine().boot


@pytest.mark.parametrize(
    ("ended", "boot", "count", "status"),
    [
        (KILLED, HERE, BEFORE + 1, "out-of-memory"),
        (KILLED, HERE, BEFORE, "killed"),
        (KILLED, "elsewhere", BEFORE + 1, "killed"),
        (replace(KILLED, out_of_memory=True), "elsewhere", BEFORE, "out-of-memory"),
        (Ended(0, -signal.SIGTERM), HERE, BEFORE + 1, "killed"),
        (Ended(0, 1), HERE, BEFORE + 1, "crashed"),
    ],
)
def test_by_the_count_of_its_own_kernel_or_its_keepers_word(
    ended: Ended, boot: str, count: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(ended, boot, count, monkeypatch)[0] == status


def test_the_reason_names_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    _, reason = told(KILLED, HERE, BEFORE + 1, monkeypatch)
    assert reason == "rank 0 was killed in the trial by the kernel for lack of memory"
