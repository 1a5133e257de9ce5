"""Work that takes long shows that it goes on: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steplab.cli import _life


@pytest.fixture
def times(tmp_path: Path) -> Path:
    path = tmp_path / "times.csv"
    rows = [
        f"{b},{n},{0.01 + 1e-4 * b + 1e-3 * n * (1 + 0.01 * np.sin(b * n))}" for b in (8, 16, 32) for n in (1, 2, 4, 8)
    ]
    path.write_text("\n".join(["batch_size,workers,t_iter", *rows]) + "\n")
    return path


def test_where_there_is_no_terminal_a_line_tells_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_life, "FIRST_S", 0.01)
    with _life.working("reading") as report:
        report("fitting auto", 0.25)
        while "fitting auto" not in (told := capsys.readouterr().err):
            time.sleep(0.01)
    assert "… fitting auto: 25 % done after" in told
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""  # it ends with the work


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_nothing_of_a_bar_is_in_a_pipe(command: str, times: Path, in_process: Callable[..., Any]) -> None:
    told = in_process(command, times, "--target", "t_iter", *(["--models", "linear"] if command == "compare" else []))
    assert told.code == 0
    assert not set("━\r\x1b") & set(told.err + told.out)


def test_a_comparison_on_a_terminal_has_a_bar_with_its_share_and_time(
    times: Path, on_terminal: Callable[..., Any]
) -> None:
    screen = on_terminal("compare", times, "--target", "t_iter", "--models", "hybrid,pmnf,random-forest", "--folds", 3)
    assert screen.code == 0
    bars = [line for line in screen.lines if "fitting" in line]
    assert any(re.search(r"━.* \d+% \d:\d\d:\d\d .*fitting", line) for line in bars), screen.lines[:20]
    assert max(map(len, bars)) <= 80
    assert not any("note:" in line for line in bars)  # what is assumed stands below the bar, not in it


def test_a_fit_on_a_terminal_shows_what_it_does(times: Path, on_terminal: Callable[..., Any]) -> None:
    screen = on_terminal("fit", times, "--target", "t_iter")
    assert screen.code == 0
    assert any("fitting auto" in line for line in screen.lines)
