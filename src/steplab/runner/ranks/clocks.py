"""How far the clocks of the ranks' hosts are apart, estimated by asking each for its time, as NTP does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PINGS = 9


@dataclass(frozen=True)
class Ping:
    """One question for the time: asked and answered on our clock, `read` on the rank's."""

    asked: float
    read: float
    answered: float


def ahead(pings: Sequence[Ping]) -> float:
    """How far a rank's clock is ahead of ours, in seconds: by the quickest answer, which queues disturbed least.

    The answer is taken to have been given halfway (D. L. Mills, "Internet time synchronization", IEEE Trans. Commun.
    39, 1991, the clock filter); the error is at most half the time between question and answer.

    >>> ahead([Ping(0.0, 107.0, 8.0), Ping(10.0, 111.0, 12.0)])
    100.0
    """
    best = min(pings, key=lambda ping: ping.answered - ping.asked)
    return best.read - (best.asked + best.answered) / 2


def offsets(hosts: Mapping[int, str], pings: Mapping[int, Sequence[Ping]]) -> dict[int, float]:
    """Each rank's clock less that of rank 0; ranks of one host read one clock.

    >>> offsets({0: "a", 1: "a", 2: "b"}, {0: [Ping(0.0, 1.0, 2.0)], 2: [Ping(0.0, 6.0, 2.0)]})
    {0: 0.0, 1: 0.0, 2: 5.0}
    """
    first = hosts[min(hosts)]
    asked = {hosts[rank]: ahead(every) for rank, every in pings.items()}
    return {rank: 0.0 if host == first else asked[host] - asked[first] for rank, host in sorted(hosts.items())}


def representatives(hosts: Mapping[int, str]) -> list[int]:
    """The ranks to ask: the first of each host, nobody if there is but one.

    >>> representatives({0: "a", 1: "b", 2: "b"})
    [0, 1]
    >>> representatives({0: "a", 1: "a"})
    []
    """
    first = {host: rank for rank, host in sorted(hosts.items(), reverse=True)}
    return sorted(first.values()) if len(first) > 1 else []
