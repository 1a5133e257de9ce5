"""Ctrl-C: the first asks for an end at the next trial, the second ends at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import steplab


@contextlib.contextmanager
def listening(on_first: Callable[[], None]) -> Iterator[steplab.Stop]:
    """Turn the first SIGINT into a request, the second one and SIGTERM into KeyboardInterrupt."""
    stop = steplab.Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        at_once = stop.asked or number == signal.SIGTERM
        stop.asked = True
        if at_once:
            raise KeyboardInterrupt
        on_first()

    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals reach the main thread only
        return
    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
