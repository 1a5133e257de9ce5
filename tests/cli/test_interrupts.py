"""Ctrl-C at any moment is one line and exit code 130, also while libraries are being imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Presses Ctrl-C when a module is asked for: in the middle of an import, at a moment that is the same each time.
PRESS = """
import builtins, os, signal, sys
real = builtins.__import__
def pressing(name, *rest):
    if name == "{module}":
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest)
builtins.__import__ = pressing
sys.argv = ["steplab", {arguments}]
from steplab.__main__ import main
main()
"""
# What is started in the background may ignore Ctrl-C, and so would its children: these listen.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def _pressed(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    script = (LISTEN + PRESS).format(module=module, arguments=", ".join(repr(str(argument)) for argument in arguments))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)


@pytest.fixture
def times(tmp_path: Path) -> Path:
    path = tmp_path / "times.csv"
    path.write_text("workers,t_iter\n" + "".join(f"{n},{0.1 * n}\n" for n in (1, 2, 4, 8)))
    return path


# Before the command line is there; while it looks for commands; in a command; within the import of a library.
@pytest.mark.parametrize(
    "module", ["signal", "typer", "steplab.cli._streams", "rich.progress", "numpy", "sklearn.base"]
)
def test_an_interrupted_import_is_one_line(module: str, times: Path) -> None:
    ended = _pressed(module, "compare", times, "--target", "t_iter", "--models", "linear")
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.splitlines()[-1] == "steplab: interrupted"
    assert "Traceback" not in ended.stderr


def test_an_error_of_a_library_that_was_interrupted_is_not_shown(times: Path, tmp_path: Path) -> None:
    script = (LISTEN + PRESS).replace("os.kill(os.getpid(), signal.SIGINT)", """
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("it failed to import") from None
""").format(module="typer", arguments="'--help'")  # fmt: skip
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (130, "steplab: interrupted\n")


# Python ignores an exception that is raised while it lets go of something, and goes on.
DROPPED = """
        builtins.__import__ = real
        class Late:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
        Late()
"""


def test_an_interrupt_that_python_drops_comes_again(times: Path) -> None:
    script = (LISTEN + PRESS).replace("        os.kill(os.getpid(), signal.SIGINT)\n", DROPPED)
    arguments = ", ".join(map(repr, ["compare", str(times), "--target", "t_iter", "--models", "linear"]))
    script = script.format(module="typer", arguments=arguments)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (130, "steplab: interrupted\n")


def test_ctrl_c_while_a_command_ends_says_nothing() -> None:
    """Python's own end takes a moment, in which threads and libraries are let go of."""
    late = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
    script = late + (LISTEN + PRESS).format(module="nothing", arguments="'--version'")
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_ignores_interrupts_goes_on_ignoring_them(times: Path) -> None:
    script = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + PRESS
    script = script.format(module="typer", arguments="'--version'")
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout.partition(" ")[0]) == (0, "steplab")


def test_python_m_steplab_is_the_command() -> None:
    variables, before = {**os.environ, "COLUMNS": "80"}, signal.getsignal(signal.SIGINT)
    module = subprocess.run([sys.executable, "-m", "steplab", "--version"], capture_output=True, env=variables)
    command = subprocess.run([Path(sys.executable).with_name("steplab"), "--version"], capture_output=True)
    assert module.stdout == command.stdout
    assert signal.getsignal(signal.SIGINT) is before  # nothing of it reaches the tests
