"""Backward and its exchanges side by side: a small simulation of one rank, event by event.

Backward runs through the moments at which buckets are ready. Each bucket then waits until less than `in_flight` others
are on their way, spends its latency, and shares the wire with the others that are moving bytes. Where a machine has no
core to spare, the collective and backward share one: each gets what it needs as long as that is at most half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EPSILON = 1e-12  # seconds that are none


@dataclass(frozen=True)
class Message:
    """A bucket on the wire: when it is ready (seconds of undisturbed backward), and what it takes."""

    ready: float
    latency: float
    moving: float  # seconds, alone on the wire
    cpu_seconds: float = 0.0

    @property
    def cores(self) -> float:
        """What it needs of the CPU while it is under way."""
        return self.cpu_seconds / max(self.latency + self.moving, EPSILON)


@dataclass(frozen=True)
class Cores:
    """The CPUs of a rank: what it can have of them, and what backward wants."""

    there: float = float("inf")
    wanted: float = 1.0

    def speeds(self, cores: float) -> tuple[float, float]:
        """How fast backward and the collective go while both run, if the collective needs so many cores."""
        usual = min(self.wanted, self.there)
        given = min(cores, max(self.there / 2, self.there - usual))
        return min(usual, self.there - given) / usual, given / cores if cores > 0 else 1.0


@dataclass(frozen=True)
class Timeline:
    """When backward and the last exchange end, and for how long something was in flight."""

    computed: float
    ended: float
    in_flight: float

    @property
    def exposed(self) -> float:
        """Seconds of exchange after the last gradient."""
        return max(0.0, self.ended - self.computed)


class _Flight:
    def __init__(self, message: Message) -> None:
        self.message, self.latency, self.moving = message, message.latency, message.moving

    @property
    def done(self) -> bool:
        return self.latency <= EPSILON and self.moving <= EPSILON


def simulate(
    backward_s: float, messages: Sequence[Message], in_flight: int = 1, cores: Cores | None = None
) -> Timeline:
    """One backward pass with its exchanges.

    >>> simulate(1.0, [Message(0.5, 0.0, 0.25), Message(1.0, 0.0, 0.25)])
    Timeline(computed=1.0, ended=1.25, in_flight=0.5)
    """
    sent = [message for message in messages if message.latency + message.moving > EPSILON]
    cpus, queue, flying = cores or Cores(), sorted(sent, key=lambda message: message.ready), list[_Flight]()
    now = computed = done = busy = 0.0
    while done < backward_s - EPSILON or queue or flying:
        while queue and len(flying) < in_flight and queue[0].ready <= done + EPSILON:
            flying.append(_Flight(queue.pop(0)))
        computing = done < backward_s - EPSILON
        compute, move = cpus.speeds(sum(each.message.cores for each in flying)) if flying else (1.0, 1.0)
        compute, move = (compute, move) if computing else (0.0, 1.0)
        milestone = min((each.ready for each in queue if each.ready > done + EPSILON), default=backward_s)
        step = _next_event(min(milestone, backward_s), done, compute, flying, move)
        now, done, busy = now + step, done + compute * step, busy + (step if flying else 0.0)
        computed = now if computing else computed
        flying = _moved(flying, step * move)
    return Timeline(computed, max(now, computed), busy)


def _next_event(milestone: float, done: float, compute: float, flying: Sequence[_Flight], move: float) -> float:
    """Seconds until backward reaches a milestone or a message its next stage."""
    times = [(milestone - done) / compute] if compute > 0 and milestone > done else []
    sharing = sum(each.latency <= EPSILON for each in flying)
    for each in flying:
        left = each.latency if each.latency > EPSILON else each.moving * sharing
        times.append(left / max(move, EPSILON))
    return max(min(times), EPSILON)


def _moved(flying: Sequence[_Flight], seconds: float) -> list[_Flight]:
    """Let that many seconds of wire pass; those that are still under way."""
    sharing = sum(each.latency <= EPSILON for each in flying)
    for each in flying:
        if each.latency > EPSILON:
            each.latency -= seconds
        else:
            each.moving -= seconds / sharing
    return [each for each in flying if not each.done]
