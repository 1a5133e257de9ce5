"""The keeper on another host: a folder of its own with the token, the end of what it keeps, no orphan."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.runner.ranks.keepers import RECEIVER, sent
from steplab_worker import keeper

COMMAND = [sys.executable, "-I", "-c", RECEIVER]
PRINT = 'printf "%s %s %s" "$STEPLAB_KEPT_ROOM" "$(cat "$STEPLAB_KEPT_ROOM/token")" "$TMPDIR"'


def document(line: str, **more: Any) -> bytes:
    about = {"task": "run", "token": "secret", "python": [sys.executable], "program": "", "variables": {}, "line": line}
    return sent({**about, **more})


def kept(line: str, then: bytes = b"", **more: Any) -> tuple[int, str]:
    """How a line ends whose launcher lives on, and what it printed."""
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(document(line, **more) + then)
        process.stdin.flush()
        printed = process.stdout.read().decode()
        return process.wait(timeout=180), printed


def test_it_makes_a_folder_with_the_token_that_is_on_no_command_line() -> None:
    code, printed = kept(PRINT)
    room, token, temporary = printed.split()
    assert (code, token, temporary) == (0, "secret", f"{room}/tmp")
    assert not Path(room).exists(), "it goes with what it kept"


def test_codes_are_passed_on_and_signals_as_a_shell_does() -> None:
    assert kept("exit 5") == (5, "")
    assert kept("kill -KILL $$") == (128 + signal.SIGKILL, "")


def test_a_line_that_says_so_signals_it() -> None:
    waiting = "trap 'echo heard; exit 0' USR1; echo up; while :; do sleep 0.05; done"
    code, printed = kept(waiting, b"signal %d\n" % signal.SIGTERM)
    assert code == 128 + signal.SIGTERM, printed


def test_the_end_of_the_input_is_its_end(no_orphans: Callable[[], None]) -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(document("sleep 1000"))
        process.stdin.close()
        assert process.wait(timeout=180) == 128 + signal.SIGKILL
    no_orphans()


def test_what_it_keeps_dies_with_it(no_orphans: Callable[[], None]) -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(document("echo up; exec sleep 1000"))
        process.stdin.flush()
        assert process.stdout.readline() == b"up\n"
        process.kill()
    no_orphans()


def test_an_interpreter_that_is_not_there_is_told() -> None:
    code, printed = kept("true", python=["/nowhere/python"])
    assert (code, "there is no interpreter /nowhere/python" in printed) == (keeper.NO_PYTHON, True)


@pytest.mark.parametrize(("later", "code"), [(4, keeper.OUT_OF_MEMORY), (3, 128 + signal.SIGKILL)])
def test_a_death_while_the_kernel_kills_for_lack_of_memory_is_told_apart(
    later: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter([3, later])
    monkeypatch.setattr(keeper, "oom_kills", lambda: next(counts))
    monkeypatch.setattr(keeper, "PASSED_ON", ())
    monkeypatch.setattr(keeper, "obey", lambda kept, stdin: None)
    process = subprocess.Popen(["sh", "-c", "kill -KILL $$"], start_new_session=True)
    assert keeper.attend(process, io.BytesIO()) == code
