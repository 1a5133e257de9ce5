"""Frameworks in order for the page: the verdicts on their pairs, seen from each framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steplab.analysis.frameworks import MEASURES, Comparison


@dataclass(frozen=True)
class Place:
    """A framework: its measure against that of the first, whom it surely beats, and whom it cannot be told from."""

    framework: str
    ratio: float
    beats: tuple[str, ...]
    alike: tuple[str, ...]


def order(pairs: Sequence[Comparison]) -> list[Place]:
    """The frameworks of one measure's pairs, the best first, never against a real difference.

    Empty where real differences go round, so that there is no order.
    """
    names = sorted({name for pair in pairs for name in (pair.first, pair.second)})
    scores = {name: _score(name, pairs) for name in names}
    ranked: list[str] = []
    while len(ranked) < len(names):
        left = [name for name in names if name not in ranked]
        free = [name for name in left if not set(_worse_than(name, pairs)) & set(left)]
        if not free:
            return []
        ranked.append(max(free, key=lambda name: scores[name]))
    return [_place(name, ranked[0], pairs) for name in ranked]


def _score(name: str, pairs: Sequence[Comparison]) -> float:
    """The mean log ratio against all others, more is better."""
    more_is_better = any(known == pairs[0].measure and more for _, known, more in MEASURES)
    logs = [np.log(pair.ratio) for pair in pairs if pair.first == name]
    logs += [-np.log(pair.ratio) for pair in pairs if pair.second == name]
    mean = float(np.sum(logs)) / (len(logs) + 1)
    return mean if more_is_better else -mean


def _place(name: str, first: str, pairs: Sequence[Comparison]) -> Place:
    own = [pair for pair in pairs if name in (pair.first, pair.second)]
    beats = tuple(_other(pair, name) for pair in own if pair.real and pair.better == name)
    alike = tuple(_other(pair, name) for pair in own if not pair.real)
    return Place(name, _against(name, first, pairs), beats, alike)


def _against(name: str, first: str, pairs: Sequence[Comparison]) -> float:
    """The measured ratio; 1 for the first itself."""
    for pair in pairs:
        if {pair.first, pair.second} == {name, first} and name != first:
            return pair.ratio if pair.first == name else 1 / pair.ratio
    return 1.0 if name == first else float("nan")


def _other(pair: Comparison, name: str) -> str:
    return pair.second if pair.first == name else pair.first


def _worse_than(name: str, pairs: Sequence[Comparison]) -> list[str]:
    """Those that are better beyond doubt."""
    return [pair.better for pair in pairs if pair.real and name in (pair.first, pair.second) and pair.better != name]
