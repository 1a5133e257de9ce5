"""A bar that shows how far a run is."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID

import steplab
from steplab.cli._output import console, progress_text
from steplab.core.trial import Config, tally
from steplab.core.units import seconds as shown

if TYPE_CHECKING:
    from steplab.core.record import Record
    from steplab.core.trial import Trial


BAR = 14  # columns of the bar itself


class ProgressBar(steplab.RunObserver):
    """A run's progress: done, failed, unsupported, time left. Drawn when something happens, or every second."""

    task: TaskID

    def __init__(self, progress: Progress, varied: Collection[str]) -> None:
        self.progress, self.varied, self.total, self.drawn = progress, varied, 0, False
        self.statuses: list[str] = []
        self.began = time.monotonic()
        self.expected, self.as_of = 0.0, self.began

    def on_note(self, text: str) -> None:
        """Print it above the bar."""
        screen = self.progress.console
        screen.print(text, markup=False, soft_wrap=not screen.is_terminal)

    def on_begin(self, trials: int, expected_s: float) -> None:
        """Draw the bar."""
        self.total, self.began, self.drawn = trials, time.monotonic(), True
        self.task = self.progress.add_task("starting", total=trials, failed="", unsupported="", left="")
        self.on_estimate(expected_s)
        self.progress.start()

    def on_estimate(self, left_s: float) -> None:
        """Show it, and count down from it."""
        self.expected, self.as_of = left_s, time.monotonic()
        self.on_tick()

    def on_start(self, trial: Trial) -> None:
        """Name the trial."""
        self._describe(brief(trial.config, self.varied))

    def on_progress(self, trial: Trial, news: str) -> None:
        """Say how far the trial is."""
        self._describe(f"{news}, {brief(trial.config, self.varied)}")

    def on_wait(self, trial: Trial, holder: str) -> None:
        """Say who is waited for."""
        self.progress.console.print(f"waiting for the trial {trial.id}: it is claimed by {holder}")

    def on_record(self, record: Record) -> None:
        """Count the trial, and say what went wrong with it."""
        self.statuses.append(record.status)
        if record.status != "ok":
            self.progress.console.print(f"{record.status}: {record.reason} ({record.trial})", markup=False)
        ended = tally(self.statuses)
        failed = f"{ended.failed} failed" if ended.failed else ""
        unsupported = f"{ended.unsupported} unsupported" if ended.unsupported else ""
        self.progress.update(self.task, advance=1, failed=failed, unsupported=unsupported)

    def on_jobs(self, text: str) -> None:
        """Say how the jobs are."""
        self._describe(text)

    def on_tick(self) -> None:
        """Draw the bar anew, with the time that is left."""
        now, open_ = time.monotonic(), self.total - len(self.statuses)
        remaining = self.expected - (now - self.as_of)
        # The trial that runs takes longer than expected: how long nobody knows, but not less than nothing.
        left = f"{shown(max(1.0, round(remaining)))} left" if open_ else f"in {shown(now - self.began)}"
        self.progress.update(self.task, left=left)
        if not open_:
            self.progress.update(self.task, description="")  # no trial runs any more
        self.progress.refresh()

    def stopping(self) -> None:
        """Say that the run ends soon."""
        self.progress.console.print("ending after this trial; Ctrl-C again ends at once")

    def leaving(self) -> None:
        """Say that jobs go on without this run."""
        self.progress.console.print(
            "leaving; the jobs go on: call the same again to follow them, `steplab cancel` ends them"
        )

    def _describe(self, text: str) -> None:
        self.progress.update(self.task, description=text)
        self.progress.refresh()


def brief(config: Config, varied: Collection[str]) -> str:
    """A configuration by what varies: words as they are, numbers with their factor.

    >>> brief({"framework": "torch", "network": "lenet5", "workers": 2}, ["framework", "workers"])
    'torch, workers 2'
    """
    shown = {name: level for name, level in config.items() if name in varied}
    return ", ".join(level if isinstance(level, str) else f"{name} {level}" for name, level in shown.items())


@contextmanager
def watching(varied: Collection[str]) -> Iterator[ProgressBar]:
    """A bar on stderr, which goes with the run; where nobody sees it, only what a person should know is printed."""
    texts = [
        progress_text("fields[failed]", "red"),
        progress_text("fields[unsupported]"),
        progress_text("fields[left]"),
    ]
    columns = (BarColumn(BAR), MofNCompleteColumn(), *texts, progress_text("description", "dim", shrinks=True))
    screen = console(stderr=True)
    progress = Progress(*columns, console=screen, auto_refresh=False, disable=not os.isatty(2))
    bar = ProgressBar(progress, varied)
    try:
        yield bar
    finally:
        if bar.drawn:
            progress.stop()
