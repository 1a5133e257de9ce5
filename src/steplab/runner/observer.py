"""What a campaign tells whoever watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a progress bar needs none of these, and they take their time
    from steplab.core.record import Record
    from steplab.core.trial import Trial


class Observer:
    """Watches a campaign; each method does nothing until a subclass says what."""

    def on_start(self, trial: Trial) -> None:
        """A trial begins."""

    def on_progress(self, trial: Trial, news: str) -> None:
        """A trial has come further, such as by an epoch; `news` says it in a few words."""

    def on_record(self, record: Record) -> None:
        """A trial has ended, and its record is written."""

    def on_wait(self, trial: Trial, holder: str) -> None:
        """Only trials that others have claimed are left; the first of them, and who is at it."""

    def on_tick(self) -> None:
        """Some time has passed while ranks work: several times a second, and cheap, for a trial is being measured."""

    def on_jobs(self, text: str) -> None:
        """Of a study that runs elsewhere: how many of its jobs wait and why, and where the others work."""

    def on_note(self, text: str) -> None:
        """Something that a person should know, such as that a job was lost and its trial runs again."""
