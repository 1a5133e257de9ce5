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
from typing import Self, TypeVar

T = TypeVar("T")


class BackgroundProcess:
    """A process that waits for work; `modules` are imported there at once."""

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "steplab.core.background", *modules],  # -P: nothing from the current folder
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def begin(self, work: Callable[[], T]) -> Callable[[], T]:
        """Begin the work there; what comes back waits for its result."""
        asking, answers = self._process.stdin, self._process.stdout
        assert asking and answers
        with contextlib.suppress(OSError):
            pickle.dump(work, asking, pickle.HIGHEST_PROTOCOL)
            asking.flush()

        def result() -> T:
            try:
                answer: T = pickle.load(answers)
            except (OSError, EOFError, pickle.UnpicklingError):
                # It was killed; or it failed, and here the work fails with the same words.
                return work()
            return answer

        return result

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
