"""Work in a further process of this program, which imports what it needs while this one does something else.

It lives on its standard input, so it ends when this process does, however that ends. What passes between the two is
pickled: both are this program. A process that is lost costs time only, since its work is then done here.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Self, TypeVar

T = TypeVar("T")


class ProcessLost(Exception):
    """The process was killed, or failed: its work must be done here, where it fails with its own words."""


class BackgroundProcess:
    """A process that waits for work; `modules` are imported there at once."""

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "steplab.core.background", *modules],  # -P: nothing from the current folder
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def begin(self, work: Callable[[], T]) -> Callable[[], T]:
        """Begin the work there; what comes back waits for its result."""
        try:
            self._ask(work)
        except ProcessLost:
            return work

        def result() -> T:
            try:
                answer: T = self._answer()
            except ProcessLost:
                return work()
            return answer

        return result

    def do(self, work: Callable[[], T]) -> T:
        """Have the work done there and wait for it; `ProcessLost` where it could not be."""
        self._ask(work)
        answer: T = self._answer()
        return answer

    def _ask(self, work: Callable[[], T]) -> None:
        asking = self._process.stdin
        assert asking
        try:
            asking.write(pickle.dumps(work, pickle.HIGHEST_PROTOCOL))
            asking.flush()
        # Writing to what is closed is a ValueError; what cannot be sent is one of the last three.
        except (OSError, ValueError, pickle.PicklingError, AttributeError, TypeError) as error:
            raise ProcessLost from error

    def _answer(self) -> Any:
        """What the process answers next."""
        answers = self._process.stdout
        assert answers
        try:
            return pickle.load(answers)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            raise ProcessLost from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        with contextlib.suppress(OSError):
            self._process.communicate()


def _serve(modules: list[str]) -> None:
    """Do what is asked for on standard input until it ends."""
    asked, told = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between
    for module in modules:
        importlib.import_module(module)
    while True:
        try:
            work = pickle.load(asked)
        except EOFError:
            return
        pickle.dump(work(), told, pickle.HIGHEST_PROTOCOL)
        told.flush()


if __name__ == "__main__":
    _serve(sys.argv[1:])
