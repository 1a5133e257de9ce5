"""Replicates until every pair of configurations is told apart, or is known to differ by less than matters.

After each look the interval of every difference is widened so that all looks and all pairs together err in at most 5 %
of the studies: look k of P pairs spends 5 %/(P·k·(k+1)) of it, and the looks are few, since the number of replicates
grows by a third from one to the next (a spending rule, as in group-sequential trials: Lan and DeMets, Biometrika 70,
1983). Differences are those of mean logarithms; the noise is pooled over the configurations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

ERRING = 0.05
FIRST = 4  # replicates before the first look
GROWTH = 1 / 3


@dataclass(frozen=True)
class Pair:
    """Two configurations: by how much the second takes longer, in logarithms, and what is known of it."""

    first: int
    second: int
    difference: float
    half: float  # of the interval
    verdict: str  # "faster", "slower" (the first is), "alike" (within what matters), or "" while nobody knows


def look_number(replicates: int) -> int:
    """Which look a number of replicates is, 1 for the first.

    >>> [look_number(n) for n in (4, 6, 8, 11)]
    [1, 2, 3, 4]
    """
    look, now = 1, FIRST
    while now < replicates:
        now, look = following(now), look + 1
    return look


def following(replicates: int) -> int:
    """The number of replicates at the next look."""
    return max(FIRST, replicates + max(1, math.ceil(GROWTH * replicates)))


def verdicts(logs: Mapping[int, Sequence[float]], matters: float) -> list[Pair]:
    """What is known of every pair; `matters` is the relative difference that is to be seen."""
    known = {name: np.asarray(values, float) for name, values in logs.items()}
    freedom = sum(len(values) - 1 for values in known.values())
    pairs = list(combinations(sorted(known), 2))
    if freedom < 1 or not pairs:
        return [Pair(a, b, 0.0, math.inf, "") for a, b in pairs]
    pooled = math.sqrt(sum(float(((v - v.mean()) ** 2).sum()) for v in known.values()) / freedom)
    return [_pair(a, b, known, pooled, freedom, matters, len(pairs)) for a, b in pairs]


def _pair(
    a: int, b: int, known: Mapping[int, np.ndarray], pooled: float, freedom: int, matters: float, pairs: int
) -> Pair:
    look = look_number(min(len(known[a]), len(known[b])))
    risk = ERRING / (pairs * look * (look + 1))
    half = float(stats.t.ppf(1 - risk / 2, freedom)) * pooled * math.sqrt(1 / len(known[a]) + 1 / len(known[b]))
    difference = float(known[b].mean() - known[a].mean())
    verdict = ""
    if min(len(known[a]), len(known[b])) >= FIRST:
        if abs(difference) > half:
            verdict = "faster" if difference > 0 else "slower"
        elif abs(difference) + half < math.log1p(matters):
            verdict = "alike"
    return Pair(a, b, difference, half, verdict)


def wanted(logs: Mapping[int, Sequence[float]], matters: float, most: int) -> dict[int, tuple[int, Pair | None]]:
    """Which configurations need how many more replicates, each with the pair for which; none once all is known."""
    short = {name: (FIRST - len(values), None) for name, values in logs.items() if len(values) < FIRST}
    if short:
        return {name: (min(more, most - len(logs[name])), why) for name, (more, why) in short.items()}
    needs: dict[int, tuple[int, Pair | None]] = {}
    for pair in verdicts(logs, matters):
        for name in (pair.first, pair.second) if not pair.verdict else ():
            others = min(len(logs[pair.first]), len(logs[pair.second]))
            more = min(following(others), most) - len(logs[name])
            if more > 0 and more > needs.get(name, (0, None))[0]:
                needs[name] = (more, pair)
    return needs
