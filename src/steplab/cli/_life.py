"""Signs of life of work that takes long: a bar on a terminal; elsewhere a line on stderr now and then."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from steplab.cli._output import console, progress_text
from steplab.core.units import seconds as shown

FIRST_S, LONGEST_S = 5.0, 60.0  # until the first line, and at most between two
Report = Callable[[str, float | None], None]  # what is being done, and which share of all is done, if that is known


@contextmanager
def working(text: str) -> Iterator[Report]:
    """Show that work goes on, and how far it is; what is drawn on a terminal is gone afterwards."""
    with _bar(text) if os.isatty(2) else _lines(text) as report:
        yield report


@contextmanager
def _bar(text: str) -> Iterator[Report]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

    times = (TimeElapsedColumn(), TimeRemainingColumn(compact=True))
    columns = (BarColumn(20), TaskProgressColumn(), *times, progress_text("description", "dim", shrinks=True))
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=None)

        def report(text: str, share: float | None) -> None:
            progress.update(task, description=text, total=1.0 if share else None, completed=share or 0.0)

        yield report


@contextmanager
def _lines(text: str) -> Iterator[Report]:
    ended, began = threading.Event(), time.monotonic()
    doing: str = text
    done: float | None = None

    def report(text: str, share: float | None) -> None:
        nonlocal doing, done
        doing, done = text, share

    def tell() -> None:
        pause = FIRST_S
        while not ended.wait(pause):
            print(_line(doing, done, time.monotonic() - began), file=sys.stderr, flush=True)
            pause = min(2 * pause, LONGEST_S)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield report
    finally:
        ended.set()
        teller.join()


def _line(text: str, share: float | None, spent: float) -> str:
    """How far the work is, in a line of a log.

    >>> _line("fitting auto", 0.42, 20.3), _line("fitting auto", None, 5.0)
    ('… fitting auto: 42 % done after 20 s', '… fitting auto: 5 s so far')
    """
    after = shown(float(round(spent)))
    return f"… {text}: {after} so far" if share is None else f"… {text}: {100 * share:.0f} % done after {after}"
