"""The wish that a campaign ends; who has it, and by which signal or button, is the caller's affair."""

from __future__ import annotations


class Stop:
    """Whether a person wants the study to end: set `asked`, and it ends after the trial that runs."""

    def __init__(self) -> None:
        self.asked = False
