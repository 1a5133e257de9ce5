"""A terminal as a person has it: so many columns, keys that can be pressed, and what was drawn on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROWS = 40
PATIENCE_S = 120.0  # ends a hang; nothing takes that long, however busy the machine
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CTRL_C = "\x03"
# Linux may drop what a terminal has not shown yet when the leader of its session ends. A command does not lead the
# session of a person's terminal, and here, too, somebody else does: until all is read that was drawn before the mark.
# It ends when the terminal goes, also where the tests run under `nohup`.
ENDED = re.compile(rb"\x1b\[(\d+)z")
SHIFT = 1000  # so that the code of a command that a signal has ended is no negative number
LEADER = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
command = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, setsigdef=[signal.SIGINT, signal.SIGHUP])
code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
os.write(1, b"\\x1b[%dz" % (code + {SHIFT}))
signal.pause()
"""


@dataclass(frozen=True)
class Screen:
    """What a command showed on a terminal: everything that was drawn, line by line, also what was drawn over."""

    code: int
    lines: list[str]

    @property
    def text(self) -> str:
        """The words, however they were broken into lines."""
        return " ".join(" ".join(self.lines).split())

    @property
    def widest(self) -> int:
        """The columns of the longest line but for the command to copy."""
        return max(len(line.rstrip()) for line in self.lines if not line.startswith("next:"))


class Terminal:
    """A command on a terminal of its own, which is also the one that Ctrl-C goes through."""

    def __init__(self, command: Sequence[object], folder: Path, more: Mapping[str, str], columns: int = 80) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")}
        self.process = subprocess.Popen(
            [sys.executable, "-ISc", LEADER, *map(str, command)],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
            env={**plain, "TERM": "xterm", **more}, start_new_session=True, preexec_fn=_own_terminal,
        )  # fmt: skip
        os.close(theirs)
        self.drawn = b""

    @property
    def text(self) -> str:
        """What has been drawn so far, without colours and moves."""
        return STEERING.sub("", self.drawn.decode(errors="replace"))

    def press(self, keys: str) -> None:
        """Type something."""
        os.write(self.ours, keys.encode())

    def until(self, words: str, since: int = 0) -> int:
        """Wait until something was drawn, after the first `since` characters; how much has been drawn then."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.text[since:]:
            assert self._read(deadline), f"{words!r} did not come:\n{self.text}"
        return len(self.text)

    def ended(self) -> Screen:
        """Wait for the end of the command."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline):
            pass
        mark = ENDED.search(self.drawn)
        assert mark, f"no end came:\n{self.text}"
        os.close(self.ours)  # which ends the leader
        self.process.wait(PATIENCE_S)
        return Screen(int(mark[1]) - SHIFT, re.split(r"[\r\n]+", self.text))

    def kill(self) -> None:
        """End the command, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _read(self, deadline: float) -> bool:
        """Take what comes next; False at the end."""
        if ENDED.search(self.drawn):
            return False
        if not select.select([self.ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            self.kill()
            raise AssertionError(f"nothing more came:\n{self.text}")
        try:
            news = os.read(self.ours, 65536)
        except OSError:
            return False
        self.drawn += news
        return bool(news)


def _own_terminal() -> None:
    """In the new process: Ctrl-C reaches it through the terminal, whatever its parents ignore."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
