"""Stretches of time as sorted, disjoint (start, end) pairs: joined, cut out of each other, measured."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

Span = tuple[float, float]
Spans = Sequence[Span]


def union(spans: Iterable[Span]) -> list[Span]:
    """Overlapping stretches as one.

    >>> union([(4, 5), (0, 2), (1, 3), (3, 3)])
    [(0, 3), (4, 5)]
    """
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif end > start:
            joined.append((start, end))
    return joined


def minus(spans: Spans, taken: Spans) -> list[Span]:
    """What is left of disjoint stretches when others are cut out.

    >>> minus([(0, 10), (20, 30)], [(2, 3), (8, 22)])
    [(0, 2), (3, 8), (22, 30)]
    """
    left: list[Span] = []
    at = 0
    for start, end in spans:
        while at < len(taken) and taken[at][1] <= start:
            at += 1
        here = at
        while here < len(taken) and taken[here][0] < end:
            if taken[here][0] > start:
                left.append((start, taken[here][0]))
            start = max(start, taken[here][1])
            here += 1
        if start < end:
            left.append((start, end))
    return left


def within(spans: Iterable[Span], start: float, end: float) -> list[Span]:
    """The parts of stretches that lie in a window.

    >>> within([(0, 3), (5, 9), (12, 13)], 2, 6)
    [(2, 3), (5, 6)]
    """
    return [(max(first, start), min(last, end)) for first, last in spans if first < end and last > start]


def length(spans: Spans) -> float:
    """How long disjoint stretches are together.

    >>> length([(0, 3), (5, 6)])
    4
    """
    return sum(end - start for start, end in spans)


def covers(spans: Spans, moment: float) -> bool:
    """Whether one of disjoint stretches holds a moment.

    >>> covers([(0, 3), (5, 6)], 2), covers([(0, 3), (5, 6)], 4)
    (True, False)
    """
    at = bisect.bisect_right(spans, (moment, float("inf"))) - 1
    return at >= 0 and moment <= spans[at][1]
