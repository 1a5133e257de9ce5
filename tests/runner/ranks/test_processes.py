"""A process of the laboratory: alone in its session, its end told truly, its whole family killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from steplab.core.errors import EnvironmentFault
from steplab.runner.ranks.processes import Process, spawn

PATIENCE_S = 120.0
# Ignores being asked to end, and has a child that does so, too.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
print("up", flush=True)
time.sleep(1000)
"""

Run = Callable[[str], Process]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def run(log: Path, no_orphans: Callable[[], None]) -> Iterator[Run]:
    """Start a Python program."""
    processes: list[Process] = []

    def started(code: str) -> Process:
        processes.append(spawn([sys.executable, "-c", code], (0,), log, os.environ))
        return processes[-1]

    yield started
    for process in processes:
        process.kill()


def until_up(log: Path, lines: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while log.read_text().count("up") < lines:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("code", "told"), [("", 0), ("raise SystemExit(5)", 5), ("import os; os.kill(os.getpid(), 6)", -6)]
)
def test_its_end_is_told_as_code_or_signal(run: Run, code: str, told: int) -> None:
    process = run(code)
    assert process.wait(time.monotonic() + PATIENCE_S)
    assert process.code() == told


def test_while_it_runs_there_is_no_code_and_waiting_gives_up(run: Run) -> None:
    process = run("import time; time.sleep(1000)")
    assert not process.wait(time.monotonic())
    assert process.code() is None


def test_all_its_output_is_in_its_log_and_nothing_on_its_input(run: Run, log: Path) -> None:
    process = run("import sys; print('out', sys.stdin.read() == '', flush=True); print('err', file=sys.stderr)")
    assert process.wait(time.monotonic() + PATIENCE_S)
    assert sorted(log.read_text().split()) == ["True", "err", "out"]


def test_it_is_alone_in_its_session(run: Run) -> None:
    process = run("import time; time.sleep(1000)")
    assert os.getsid(process.pid) == process.pid != os.getsid(0)


def test_killing_it_kills_its_children_however_stubborn(run: Run, log: Path) -> None:
    process = run(STUBBORN)
    until_up(log, 2)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
    process.signal(signal.SIGTERM)
    process.kill()
    assert process.code() == -signal.SIGKILL
    gone, alive = psutil.wait_procs(family, PATIENCE_S)
    assert len(gone) == 2
    assert not alive


def test_the_children_of_a_process_that_is_gone_can_still_be_killed(run: Run, log: Path) -> None:
    process = run("import os, time\nif os.fork() == 0:\n    print('up', flush=True)\n    time.sleep(1000)\n")
    until_up(log, 1)
    assert process.wait(time.monotonic() + PATIENCE_S)
    process.kill()  # the fixture sees to it that no orphan is left


def test_a_second_kill_does_nothing(run: Run) -> None:
    process = run("")
    process.kill()
    process.kill()
    assert process.code() is not None


@pytest.mark.parametrize("content", [None, b"\x00no program"])
def test_what_cannot_be_executed_is_one_sentence(tmp_path: Path, log: Path, content: bytes | None) -> None:
    program = tmp_path / "program"
    if content is not None:
        program.write_bytes(content)
        program.chmod(0o755)
    with pytest.raises(EnvironmentFault, match=r"program cannot be started: (No such file|Exec format error)"):
        spawn([str(program)], (0,), log, os.environ)
