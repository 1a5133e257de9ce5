"""Who tells the ranks of a running trial what to do next: pure decisions on what they sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from steplab.core.record import Epoch
from steplab_worker.channel import Document


@dataclass(frozen=True)
class Findings:
    """What a director adds to the record of its trial, beside the times that the ranks send."""

    notes: tuple[str, ...] = ()  # what a person should know of it
    epochs: tuple[Epoch, ...] = ()
    target_accuracy: float | None = None


class Director(Protocol):
    """Tells the ranks of one trial what to do next."""

    renew_s: float  # the deadline is that far away again after each answer; 0: it stays

    def answers(self, said: Mapping[int, Document]) -> dict[int, Document]:
        """What each rank is told after all have spoken."""

    def findings(self) -> Findings:
        """What it has learned so far."""
