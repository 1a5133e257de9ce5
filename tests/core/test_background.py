"""Work in a further process: done there, or here if that process is lost; never left behind."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steplab.core.background import BackgroundProcess
from steplab.core.errors import nearest


def test_work_is_done_in_another_process(no_orphans: Callable[[], None]) -> None:
    with BackgroundProcess("json") as beside:
        first, second = beside.begin(os.getpid), beside.begin(functools.partial(divmod, 7, 2))
        assert first() != os.getpid()
        assert second() == (3, 1)


def test_what_the_work_prints_does_not_come_between(no_orphans: Callable[[], None]) -> None:
    with BackgroundProcess() as beside:
        assert beside.begin(functools.partial(print, "in between", flush=True))() is None
        assert beside.begin(functools.partial(max, 2, 3))() == 3


def test_nothing_is_imported_from_where_it_is_called(
    no_orphans: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "csv.py").write_text("raise SystemExit(7)")
    with BackgroundProcess("csv") as beside:
        assert beside.begin(os.getpid)() != os.getpid()


def test_what_fails_there_fails_here_with_its_own_words(no_orphans: Callable[[], None]) -> None:
    with BackgroundProcess() as beside, pytest.raises(ZeroDivisionError):
        beside.begin(functools.partial(divmod, 1, 0))()


def test_what_cannot_be_imported_there_costs_time_only(no_orphans: Callable[[], None]) -> None:
    with BackgroundProcess("steplab.no_such_module") as beside:
        assert beside.begin(functools.partial(nearest, "fram", ["frame"]))() == nearest("fram", ["frame"])


def test_the_work_of_a_killed_process_is_done_here(no_orphans: Callable[[], None]) -> None:
    with BackgroundProcess() as beside:
        os.kill(beside.begin(os.getpid)(), signal.SIGKILL)
        assert beside.begin(os.getpid)() == os.getpid()


def test_it_ends_with_a_process_that_is_killed(no_orphans: Callable[[], None]) -> None:
    script = (
        "import os; from steplab.core.background import BackgroundProcess; BackgroundProcess().begin(os.getpid)();"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == -signal.SIGKILL
    no_orphans()
