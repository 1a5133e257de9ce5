"""A bar that shows how far a run is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID

import steplab
from steplab.cli._output import console, progress_text
from steplab.core.trial import describe, tally
from steplab.core.units import seconds as shown

if TYPE_CHECKING:
    from steplab.core.record import Record
    from steplab.core.trial import Trial


class ProgressBar(steplab.RunObserver):
    """A run's progress: done, failed, unsupported, time left. Drawn when something happens, or every second."""

    task: TaskID

    def __init__(self, progress: Progress) -> None:
        self.progress, self.total, self.drawn = progress, 0, False
        self.statuses: list[str] = []
        self.began = time.monotonic()

    def on_note(self, text: str) -> None:
        """Print it above the bar."""
        self.progress.console.print(text, markup=False, soft_wrap=True)

    def on_begin(self, trials: int, expected_s: float) -> None:
        """Draw the bar."""
        self.total, self.began, self.drawn = trials, time.monotonic(), True
        self.progress.start()
        self.task = self.progress.add_task("starting", total=trials, failed="", unsupported="", left=_left(expected_s))

    def on_start(self, trial: Trial) -> None:
        """Name the trial."""
        self._describe(describe(trial.config))

    def on_progress(self, trial: Trial, news: str) -> None:
        """Say how far the trial is."""
        self._describe(f"{news}, {describe(trial.config)}")

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
        self.on_tick()

    def on_jobs(self, text: str) -> None:
        """Say how the jobs are."""
        self._describe(text)

    def on_tick(self) -> None:
        """Draw the bar anew, with the time that is left."""
        finished = len(self.statuses)
        if finished:
            passed, open_ = time.monotonic() - self.began, self.total - finished
            left = _left(passed / finished * open_) if open_ else f"in {shown(passed)}"
            self.progress.update(self.task, left=left)
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


def _left(seconds: float) -> str:
    return f"about {shown(seconds)} left"


@contextmanager
def watching(quiet: bool) -> Iterator[ProgressBar]:
    """A bar on stderr, which goes with the run; a quiet one prints only what a person should know."""
    columns = (BarColumn(20), MofNCompleteColumn(), progress_text("fields[failed]", "red"))
    texts = (progress_text("fields[unsupported]"), progress_text("fields[left]"), progress_text("description", "dim"))
    progress = Progress(*columns, *texts, console=console(stderr=True), auto_refresh=False, disable=quiet)
    bar = ProgressBar(progress)
    try:
        yield bar
    finally:
        if bar.drawn:
            progress.stop()
