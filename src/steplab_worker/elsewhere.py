"""Keeps one member on another host: makes its folder there, hands it the group's token, and ends it with its launcher.

`python elsewhere.py COMMAND …`, a program of its own that imports nothing of this package. The token is the first line
of standard input, which stays open as long as the launcher lives; its end is the member's end.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import List, NoReturn

TOKEN = "token"  # as in `launched`
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(command: List[str]) -> NoReturn:
    """Run a member's command; end as it ends."""
    token = sys.stdin.buffer.readline().strip()
    room = _room(command, token)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)
    for number in PASSED_ON:
        signal.signal(number, lambda got, _frame: _pass_on(child, got))
    threading.Thread(target=_end_with_launcher, args=(child,), daemon=True).start()
    code = child.wait()
    if room:
        shutil.rmtree(room, ignore_errors=True)
    if code < 0:
        if -code in PASSED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _die_with_parent() -> None:
    """Ask the kernel to kill the member when its keeper dies, before it can ask for that itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _room(command: List[str], token: bytes) -> str:
    """A folder here for a group whose own is on another host; empty if that can be reached."""
    at = command.index("--room") + 1
    if os.path.isdir(command[at]):
        return ""
    room = command[at] = tempfile.mkdtemp(prefix="steplab-elsewhere-")
    os.mkdir(os.path.join(room, "tmp"))
    os.environ["TMPDIR"] = os.path.join(room, "tmp")
    with open(os.open(os.path.join(room, TOKEN), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(token)
    return room


def _end_with_launcher(child: "subprocess.Popen[bytes]") -> None:
    while sys.stdin.buffer.readline():
        pass
    with contextlib.suppress(OSError):
        child.kill()


def _pass_on(child: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(OSError):
        child.send_signal(number)


if __name__ == "__main__":
    main(sys.argv[1:])
