"""How worker code is started in an environment: for ranks and for every helper alike.

Nothing of the laboratory's own packages and nothing from the current folder reaches the interpreter: it is given the
folder of the worker package, whose `__main__` loads the package by hand.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from steplab.core.catalogue import WORKER

# They would lead the interpreter to other people's packages, or run their code.
MISLEADING = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PYTHONINSPECT")


class HelperFailed(Exception):
    """A helper ended badly; the message is its last word."""


class HelperLate(HelperFailed):
    """A helper was ended because it took too long."""


def command(python: Path, module: str = "") -> list[str]:
    """The command that starts a rank or, with a module's name, that module's `main`."""
    return [str(python), str(WORKER), *(["--run", module] if module else [])]


def variables(ambient: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The laboratory's environment variables without the misleading ones."""
    return {name: value for name, value in ambient.items() if name not in MISLEADING}


def answers(
    python: Path, module: str, job: Mapping[str, Any], patience_s: float, further: Mapping[str, str] | None = None
) -> Iterator[dict[str, Any]]:
    """Run a helper on a job, with further variables; its documents as they come.

    It is ended when the iteration is, whatever it does.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading) as channel, tempfile.TemporaryFile() as errors:
        try:
            process = _start(command(python, module), {**variables(), **(further or {})}, writing, errors)
        finally:
            os.close(writing)
        late = threading.Event()
        deadline = threading.Timer(patience_s, _end_late, (process, late))
        deadline.start()
        try:
            _tell(process, {**job, "channel": writing})
            for line in channel:
                yield _document(line)
            if process.wait():
                raise _failure(late.is_set(), process.returncode, errors)
        finally:
            deadline.cancel()
            process.kill()
            process.wait()


def answer(python: Path, module: str, job: Mapping[str, Any], patience_s: float) -> dict[str, Any]:
    """The one document of a helper that gives one."""
    documents = list(answers(python, module, job, patience_s))
    if not documents:
        raise HelperFailed("it ended without a word")
    return documents[-1]


def _start(words: list[str], env: Mapping[str, str], channel: int, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, env=env, pass_fds=[channel]
        )
    except OSError as error:
        raise HelperFailed(f"it cannot be started: {error.strerror}") from None


def _tell(process: subprocess.Popen[bytes], job: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    # A helper that is already dead says why on stderr.
    with contextlib.suppress(BrokenPipeError), process.stdin as asked:
        asked.write(json.dumps(job).encode())


def _end_late(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _document(line: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(line)
    except ValueError:
        raise HelperFailed("it said what is no document") from None
    return document


def _failure(late: bool, code: int, errors: IO[bytes]) -> HelperFailed:
    if late:
        return HelperLate("it took too long")
    errors.seek(0)
    lines = errors.read().decode("utf-8", errors="replace").strip().splitlines()
    return HelperFailed(lines[-1] if lines else f"it ended with code {code}")
