"""The keeper of a member on another host: a folder of its own with the token, the member's end, no orphan."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from steplab_worker import elsewhere

KEEPER = [sys.executable, "-I", elsewhere.__file__]
PROGRAM = "import os, sys; room = sys.argv[2]; print(room, open(room + '/token').read(), os.environ['TMPDIR'])"


def kept(*command: str) -> tuple[int, str]:
    """How a member ends whose launcher lives on, and what it printed."""
    with subprocess.Popen([*KEEPER, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        keeper.stdin.write("secret\n")
        keeper.stdin.flush()
        printed = keeper.stdout.read()
        return keeper.wait(timeout=180), printed


def test_a_member_gets_a_folder_and_the_token_that_is_on_no_command_line() -> None:
    code, printed = kept(sys.executable, "-c", PROGRAM, "--room", "/nowhere/room")
    room, token, temporary = printed.split()
    assert (code, token, temporary) == (0, "secret", f"{room}/tmp")
    assert not Path(room).exists(), "it goes with the member"


def test_a_folder_that_can_be_reached_is_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of the laboratory")
    assert kept(sys.executable, "-c", "import sys; print(sys.argv[2])", "--room", str(tmp_path)) == (0, f"{tmp_path}\n")


def test_a_members_code_and_signal_are_the_keepers(tmp_path: Path) -> None:
    for program, code in (("sys.exit(5)", 5), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)):
        assert kept(sys.executable, "-c", f"import os, signal, sys; {program}", "--room", str(tmp_path)) == (code, "")


def test_the_end_of_the_line_is_the_members_end(tmp_path: Path, no_orphans: Callable[[], None]) -> None:
    command = [*KEEPER, sys.executable, "-c", "import time; time.sleep(1000)", "--room", str(tmp_path)]
    keeper = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert keeper.stdin is not None
    keeper.stdin.write(b"secret\n")
    keeper.stdin.close()
    assert keeper.wait(timeout=180) == -signal.SIGKILL
    no_orphans()
