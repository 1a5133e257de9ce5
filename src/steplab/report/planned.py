"""Decisions for the report: how many workers pay, and why an adaptive design chose its trials."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkersCurve:
    """Predicted speed-up against workers with 90 % intervals, and the number that is enough."""

    of: str
    workers: tuple[int, ...]
    speedup: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    enough: int
    why: str


@dataclass(frozen=True)
class ChosenTrial:
    """A trial that an adaptive design chose, its batch, and the reason."""

    batch: int
    trial: str
    why: str


@dataclass(frozen=True)
class Doubt:
    """How much an adaptive design did not know before a batch, as a relative number, after so many trials."""

    trials: int
    uncertainty: float


@dataclass(frozen=True)
class Planned:
    """What a report shows of decisions; empty for a study that has none."""

    workers: WorkersCurve | None = None
    choices: tuple[ChosenTrial, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    ended: str = ""  # what ended the adaptive design
