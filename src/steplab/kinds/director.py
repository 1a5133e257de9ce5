"""What directs a trial: answers to its ranks, each made when all of them have spoken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from steplab.core.record import Epoch
from steplab_worker.codec import ProtocolError
from steplab_worker.messages import M, Measurement, Message, Result, expected


class OutOfTurn(Exception):
    """A rank sent what nobody had asked it for."""

    def __init__(self, rank: int, what: str) -> None:
        super().__init__(what)
        self.rank, self.what = rank, what


@dataclass(frozen=True)
class Findings:
    """What a director adds to the record of its trial, beside the times that the ranks send."""

    notes: tuple[str, ...] = ()  # what a person should know of it
    epochs: tuple[Epoch, ...] = ()
    target_accuracy: float | None = None


class Director(Protocol):
    """Tells the ranks of one trial what to do next; pure decisions on what they have sent."""

    renew_s: float  # the deadline is that far away again after each answer; 0: it stays

    def answers(self, asked: Mapping[int, Message]) -> dict[int, Message]:
        """What each rank is told after all have asked; OutOfTurn if one of them should not have."""

    def check(self, measurements: Mapping[int, Measurement]) -> None:
        """OutOfTurn unless the ranks have measured what they were told to."""

    def findings(self) -> Findings:
        """What it has learned so far."""


class Undirected:
    """Directs ranks that need no direction: those of benchmarks and proofs, with a loop of their own."""

    renew_s = 0.0

    def answers(self, asked: Mapping[int, Message]) -> dict[int, Message]:
        """Nothing may be asked."""
        return {rank: said_by(rank, message, Result) for rank, message in asked.items()}

    def check(self, measurements: Mapping[int, Measurement]) -> None:
        """Whatever they have measured is right."""

    def findings(self) -> Findings:
        """Nothing beside the times."""
        return Findings()


def all_of(asked: Mapping[int, Message], kind: type[M]) -> dict[int, M]:
    """The ranks' messages, all of one kind."""
    return {rank: said_by(rank, message, kind) for rank, message in sorted(asked.items())}


def said_by(rank: int, message: Message, kind: type[M]) -> M:
    """A rank's message, if it is of that kind."""
    try:
        return expected(message, kind)
    except ProtocolError as error:
        raise OutOfTurn(rank, str(error)) from None
