"""The roofline: how fast a piece of work can be at most, on processors and memories with known ceilings.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52(4), 2009: attainable FLOP/s = min(peak FLOP/s, intensity · bandwidth). The hierarchical form (A. Ilic,
F. Pratas, L. Sousa, IEEE CAL 13(1), 2014; T. Koskela et al., ISC 2018) has one bandwidth for each level of memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Bound = Literal["compute", "bandwidth"]
COMPUTE = "compute"
MEMORY = "DRAM"
FLOAT32 = "float32"


@dataclass(frozen=True)
class Level:
    """One level of memory: the fastest traffic it sustains, and what fits into it (main memory: everything)."""

    name: str
    bytes_per_s: float
    capacity: float = math.inf  # bytes that all threads together find there
    spread: float = 0.0
    kernel: str = ""  # what moved the bytes


@dataclass(frozen=True)
class Ceiling:
    """The roofs for so many threads; `levels` begins with the fastest and ends with main memory."""

    threads: int
    flops_per_s: float
    levels: tuple[Level, ...]
    spread: float = 0.0  # the larger of the spreads of sgemm and of main memory; a share
    others: float | None = None  # share of the machine's CPU that other programs took meanwhile
    precision: str = FLOAT32  # of the products that the arithmetic roof is that of

    @property
    def bytes_per_s(self) -> float:
        """The bandwidth of main memory."""
        return self.levels[-1].bytes_per_s

    @property
    def ridge(self) -> float:
        """The intensity from which on work out of main memory is bound by arithmetic, FLOPs per byte."""
        return self.flops_per_s / self.bytes_per_s


@dataclass(frozen=True)
class Ceilings:
    """The ceilings of one machine: measured here, or taken from a machine file.

    Of the rows those in the precision of the first come first, in which everything else is told unless asked for.
    """

    machine: str
    rows: tuple[Ceiling, ...]
    origin: Literal["measured", "file"]
    source: str  # with what they were measured, or who published them
    date: str = ""
    notes: tuple[str, ...] = ()

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those in which the arithmetic roof is known."""
        return tuple(dict.fromkeys(row.precision for row in self.rows))

    def of(self, precision: str) -> tuple[Ceiling, ...]:
        """The rows in a precision."""
        return tuple(row for row in self.rows if row.precision == precision)

    @property
    def most_threads(self) -> int:
        """The most threads that there are roofs for."""
        return max(row.threads for row in self.rows)

    def row(self, threads: int, precision: str = "") -> Ceiling:
        """The roofs that bound so many threads, in a precision if they are known in it, else in the usual one.

        A roof must not be too low: between two measured rows the larger counts, and more threads are never slower
        than fewer, because some of them can stay idle.
        """
        known = self.of(precision) or self.of(self.rows[0].precision)
        enough = [row.threads for row in known if row.threads >= threads]
        most = min(enough) if enough else max(row.threads for row in known)
        rows = [row for row in known if row.threads <= most]
        top = max(rows, key=lambda row: row.threads)
        levels = tuple(replace(_fastest(level.name, rows), capacity=level.capacity) for level in top.levels)
        return replace(top, flops_per_s=max(row.flops_per_s for row in rows), levels=levels)


def _fastest(name: str, rows: list[Ceiling]) -> Level:
    return max(
        (level for row in rows for level in row.levels if level.name == name), key=lambda level: level.bytes_per_s
    )


@dataclass(frozen=True)
class Work:
    """What a layer, a phase or a kernel does: FLOPs, and bytes that must be moved at least.

    `cold` are those of the bytes that were last touched a whole step ago (weights and their gradients), so that they
    are in a cache only if the whole step fits into it. The others may come straight from the layer before.
    """

    flops: float
    bytes: float
    cold: float = 0.0

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.bytes if self.bytes else math.inf


@dataclass(frozen=True)
class Limit:
    """How fast a piece of work can be at most, and what keeps it from being faster."""

    seconds: float
    flops_per_s: float
    roof: str  # "compute" or the name of a level of memory

    @property
    def bound(self) -> Bound:
        """Which side of the roofline the work is on."""
        return "compute" if self.roof == COMPUTE else "bandwidth"


def traffic(work: Work, inner_capacity: float, footprint: float) -> float:
    """Bytes that a level of memory delivers at least, if the level before it holds `inner_capacity` bytes.

    >>> traffic(Work(flops=1.0, bytes=100.0, cold=60.0), inner_capacity=150.0, footprint=1e6)
    60.0
    """
    warm = work.bytes - work.cold if work.bytes > inner_capacity else 0.0
    return warm + (work.cold if footprint > inner_capacity else 0.0)


def limit(work: Work, ceiling: Ceiling, footprint: float = math.inf) -> Limit:
    """The least time the work takes: arithmetic at the peak, or the slowest level's traffic at its bandwidth.

    `footprint` is what the whole step touches; cold bytes come from the first level that holds it.

    >>> machine = Ceiling(1, 100.0, (Level("L3", 50.0, capacity=1000.0), Level("DRAM", 10.0)))
    >>> limit(Work(flops=4000.0, bytes=2000.0, cold=2000.0), machine)
    Limit(seconds=200.0, flops_per_s=20.0, roof='DRAM')
    >>> limit(Work(flops=4000.0, bytes=500.0), machine).roof
    'compute'
    """
    moved: dict[str, float] = {}
    inner = 0.0
    for level in ceiling.levels:
        moved[level.name] = traffic(work, inner, footprint)
        inner = level.capacity
    return limit_of(work.flops, moved, ceiling)


def limit_of(flops: float, moved: Mapping[str, float], ceiling: Ceiling) -> Limit:
    """The least time for FLOPs and for bytes that are known level by level; levels without a roof do not limit."""
    least = {COMPUTE: flops / ceiling.flops_per_s}
    least |= {level.name: moved[level.name] / level.bytes_per_s for level in ceiling.levels if level.name in moved}
    roof = max(least, key=lambda name: least[name])
    return Limit(least[roof], flops / least[roof] if least[roof] else math.inf, roof)
