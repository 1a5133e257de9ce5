"""A network profile as a function: what an exchange of so many bytes among so many ranks takes.

Measured numbers of ranks are read from their own curves. Others follow from the nearest one by the ring's law,
2(n − 1)·latency + 2(n − 1)/n·bytes/bandwidth (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", J. Parallel Distrib. Comput. 69, 2009), as do data sheets: each host's line is crossed by
that many bytes, however many ranks the host has.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from steplab.core.errors import InputError, allowed
from steplab.planning.network.curve import MOST_BREAKS, Curve, fit_curve
from steplab.planning.network.profile import Collective, Link, Profile

SHEET = (0.5, 2.0)  # ends of the interval of a data sheet's times: software adds what no sheet tells
FURTHER = 1.25  # by which the interval of ranks that were not measured grows on either side


@dataclass(frozen=True)
class Exchange:
    """One collective: seconds, of which some are latency, the ends of their interval, and CPU seconds in a rank."""

    seconds: float
    latency: float
    low: float
    high: float
    cpu_seconds: float = 0.0
    inside: bool = True  # whether so many ranks and messages as large were measured

    def scaled(self, latency: float, moving: float) -> Exchange:
        """With latency and the rest so many times as long."""
        seconds = self.latency * latency + (self.seconds - self.latency) * moving
        ratio = seconds / self.seconds if self.seconds else 1.0
        low, high = self.low * ratio, self.high * ratio
        return replace(self, seconds=seconds, latency=self.latency * latency, low=low, high=high)


BETWEEN = (
    "measure one over several hosts (`steplab network NET` on a cluster in a box of `steplab net up`, or --executor "
    "hosts or slurm), or write a link into the profile"
)
NOTHING = Exchange(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Wires:
    """A profile at one rate of its lines; what-if: so many times the bandwidth, so many times the latency."""

    profile: Profile
    rate: str = ""
    bandwidth: float = 1.0
    latency: float = 1.0
    most_breaks: int = field(default=MOST_BREAKS)  # of a curve; 0 is one straight line

    def __post_init__(self) -> None:
        if self.rate and not self.profile.ranks:
            what = f"the profile {self.profile.name!r} has a link and no rates"
            raise InputError(what, hint="leave rate out, or write another profile")
        if self.profile.ranks and not self._entries:
            rates = list(filter(None, self.profile.rates))
            hint = (
                allowed(rates) if rates else "leave rate out: the profile was measured at one rate, which has no name"
            )
            raise InputError(f"the profile {self.profile.name!r} has no rate {self.rate!r}", hint=hint)

    @property
    def _entries(self) -> list[Collective]:
        """Of the rate; where only one was measured it need not be named."""
        rates = self.profile.rates
        rate = rates[0] if not self.rate and len(rates) == 1 else self.rate
        return [entry for entry in self.profile.ranks if entry.rate == rate]

    @cached_property
    def _curves(self) -> dict[tuple[int, int], tuple[Collective, Curve]]:
        """By the numbers of ranks and hosts."""
        return {
            (entry.ranks, entry.nodes): (entry, fit_curve(entry.sizes, self.most_breaks)) for entry in self._entries
        }

    def _nearest(self, ranks: int, nodes: int) -> tuple[int, int] | None:
        """Measured ranks that are spread alike, over several hosts or over one; their number counts first."""
        alike = [known for known in self._curves if (known[1] > 1) == (nodes > 1)]
        return min(alike, key=lambda k: (abs(np.log(k[0] / ranks)), abs(np.log(k[1] / nodes)), k), default=None)

    def curve(self, ranks: int, nodes: int) -> Curve | None:
        """The curve of that many ranks, if they were measured."""
        nearest = self._nearest(ranks, nodes)
        return self._curves[nearest][1] if nearest and nearest[0] == ranks else None

    def exchange(self, message_bytes: float, ranks: int, nodes: int) -> Exchange:
        """One collective."""
        if ranks < 2 or message_bytes <= 0:
            return NOTHING
        plain = self._measured(message_bytes, ranks, nodes) if self.profile.ranks else None
        if plain is None:
            plain = self._by_sheet(message_bytes, ranks, nodes)
        return plain.scaled(self.latency, 1 / self.bandwidth)

    def _measured(self, message_bytes: float, ranks: int, nodes: int) -> Exchange | None:
        """From the curve of the nearest number of ranks that are spread alike."""
        closest = self._nearest(ranks, nodes)
        if closest is None:
            if self.profile.link is None:
                what = f"the profile {self.profile.name!r} has no exchange {'between' if nodes > 1 else 'within'} hosts"
                raise InputError(what, hint=BETWEEN if nodes > 1 else "measure one with `steplab network`")
            return None
        nearest, (entry, curve) = closest[0], self._curves[closest]
        latency, seconds = min(curve.base, curve.seconds(message_bytes)), curve.seconds(message_bytes)
        low, high = curve.ratios(message_bytes)
        inside = message_bytes <= entry.sizes[-1].bytes
        cpu = _cpu_seconds(entry, message_bytes)
        known = Exchange(seconds, latency, seconds * low, seconds * high, cpu, inside)
        if nearest == ranks:
            return known
        further = known.scaled((ranks - 1) / (nearest - 1), _share(ranks) / _share(nearest))
        return replace(further, low=further.low / FURTHER, high=further.high * FURTHER, inside=False)

    def _by_sheet(self, message_bytes: float, ranks: int, nodes: int) -> Exchange:
        link = self.profile.link
        assert link is not None  # a profile has points or a link
        if nodes == 1:
            return replace(NOTHING, inside=False)  # a data sheet of the lines tells nothing of one host's memory
        latency = 2 * (ranks - 1) * link.latency_s
        seconds = latency + 2 * _share(ranks) * message_bytes / link.bytes_per_s
        return Exchange(seconds, latency, seconds * SHEET[0], seconds * SHEET[1], inside=_within(link, ranks, nodes))


def _share(ranks: int) -> float:
    return (ranks - 1) / ranks


def _within(link: Link, ranks: int, nodes: int) -> bool:
    return nodes <= link.nodes and ranks <= nodes * link.ranks_per_node


def _cpu_seconds(entry: Collective, message_bytes: float) -> float:
    """Of a message between those measured, in proportion; of larger ones by the last."""
    sizes, cpu = [float(point.bytes) for point in entry.sizes], [point.cpu_seconds for point in entry.sizes]
    beyond = max(1.0, message_bytes / sizes[-1])
    return float(np.interp(message_bytes, sizes, cpu)) * beyond
