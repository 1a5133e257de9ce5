"""Commands called in the process of the tests."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def steplab(in_process: Callable[..., Any]) -> Callable[..., Any]:
    """Commands; what a program does with its streams, signals and surroundings has tests that start one."""
    return in_process


@dataclass(frozen=True)
class Screen:
    """What a command showed on a terminal: everything that was drawn, line by line, also what was drawn over."""

    code: int
    lines: list[str]


@pytest.fixture
def on_terminal(tmp_path: Path) -> Callable[..., Screen]:
    """Run the command `steplab` on a terminal of 80 columns."""

    def run(*arguments: object, columns: int = 80) -> Screen:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        command = [Path(sys.executable).with_name("steplab"), *map(str, arguments)]
        variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")}
        with subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, env={**variables, "TERM": "xterm"}
        ) as process:
            os.close(theirs)
            drawn = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode())
        return Screen(process.returncode, re.split(r"[\r\n]+", plain))

    return run


def _read(terminal: int) -> bytes:
    """What comes next; a terminal whose other end is closed is an error to Linux."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
