"""Frameworks in order, with the groups of those that cannot be told apart.

The order is by the mean log ratio over the configurations that pairs share (least squares where not all pairs share
the same), and never against a real difference. Groups are shown by letters: frameworks that share one cannot be told
apart (Piepho, Journal of Computational and Graphical Statistics 13, 2004: insert and absorb).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np

from steplab.analysis.framework_measures import MEASURES
from steplab.analysis.frameworks import Comparison
from steplab.analysis.labels import listed


@dataclass(frozen=True)
class Place:
    """A framework in a ranking; `ratio` is its measure against that of the first."""

    framework: str
    ratio: float
    letters: str  # those that share a letter cannot be told apart


@dataclass(frozen=True)
class Ranking:
    """The frameworks of a study by one measure, the best first, over all configurations that they share."""

    measure: str
    places: tuple[Place, ...]
    together: tuple[tuple[str, ...], ...]  # groups of two or more that cannot be told apart
    sentence: str
    left_out: tuple[str, ...] = ()  # the slowest of very many variants, which were not compared


def ranking(
    comparisons: Sequence[Comparison], measure: str = "throughput", left_out: Sequence[str] = ()
) -> Ranking | None:
    """The ranking by a measure; None where frameworks share no configuration, or where real differences go round."""
    pairs = [pair for pair in comparisons if pair.measure == measure and pair.factors is None]
    names = sorted({name for pair in pairs for name in (pair.first, pair.second)})
    scores = _scores(names, pairs, _more_is_better(measure)) if names else None
    order = _order(scores, pairs) if scores else None
    if scores is None or order is None:
        return None
    groups = _groups(order, pairs)
    letters = {
        name: "".join(a for a, group in zip(ascii_lowercase, groups, strict=False) if name in group) for name in order
    }
    places = tuple(Place(name, _ratio(scores, name, order[0], measure), letters[name]) for name in order)
    together = tuple(group for group in groups if len(group) > 1)
    singles = [pair for pair in comparisons if pair.measure == measure and pair.factors is not None]
    sentence = _sentence(measure, places, together, pairs, singles) + _uncompared(places, left_out)
    return Ranking(measure, places, together, sentence, tuple(left_out))


def _more_is_better(measure: str) -> bool:
    return next((more for _, name, more in MEASURES if name == measure), False)


def _ratio(scores: dict[str, float], name: str, first: str, measure: str) -> float:
    return float(np.exp((scores[name] - scores[first]) * (1 if _more_is_better(measure) else -1)))


def _scores(names: Sequence[str], pairs: Sequence[Comparison], more: bool) -> dict[str, float] | None:
    """How good each is, on the log scale; None where the pairs do not connect all."""
    rows = np.zeros((len(pairs), len(names)))
    for at, pair in enumerate(pairs):
        rows[at, names.index(pair.first)], rows[at, names.index(pair.second)] = 1.0, -1.0
    if np.linalg.matrix_rank(rows) < len(names) - 1:
        return None
    solved, *_ = np.linalg.lstsq(rows, np.log([pair.ratio for pair in pairs]), rcond=None)
    return dict(zip(names, (solved if more else -solved).tolist(), strict=True))


def _order(scores: dict[str, float], pairs: Sequence[Comparison]) -> list[str] | None:
    """The best first; nobody stands above one that is better beyond doubt."""
    worse = {(pair.first if pair.better == pair.second else pair.second, pair.better) for pair in pairs if pair.real}
    left, order = set(scores), []
    while left:
        free = [name for name in left if not any((name, rival) in worse for rival in left)]
        if not free:
            return None
        order.append(max(free, key=lambda name: (scores[name], name)))
        left.remove(order[-1])
    return order


def _groups(order: Sequence[str], pairs: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """The largest groups in which no two differ, in the order of their best."""
    groups = [frozenset(order)]
    for first, second in _apart(pairs):
        split = [half for group in groups for half in _split(group, first, second)]
        groups = [candidate for candidate in dict.fromkeys(split) if not any(candidate < other for other in split)]
    ordered = [tuple(name for name in order if name in group) for group in groups]
    return sorted(ordered, key=lambda group: [order.index(name) for name in group])


def _apart(pairs: Sequence[Comparison]) -> list[tuple[str, str]]:
    """The pairs that differ; two that share no configuration do if one that both share some with lies between them."""
    asked = {frozenset((pair.first, pair.second)) for pair in pairs}
    apart = {(pair.better, _other(pair)) for pair in pairs if pair.real}
    while more := {
        (best, worst)
        for best, middle in apart
        for between, worst in apart
        if middle == between and best != worst and frozenset((best, worst)) not in asked and (best, worst) not in apart
    }:
        apart |= more
    return sorted(apart)


def _split(group: frozenset[str], first: str, second: str) -> list[frozenset[str]]:
    """A group without two that differ."""
    return [group - {first}, group - {second}] if first in group and second in group else [group]


def _sentence(
    measure: str, places: Sequence[Place], together: Sequence[Sequence[str]], pairs: Sequence[Comparison],
    singles: Sequence[Comparison],
) -> str:  # fmt: skip
    """The ranking in words, with what single configurations add to it."""
    number = max(pair.configurations for pair in pairs)
    where = f"over {number} configurations" if number > 1 else "in the configuration that they share"
    if all(pair.low is None for pair in pairs):
        listed = _listed(places)
        return f"By {measure} {where} the order is {listed}, but nothing tells these differences from noise."
    if not any(pair.real for pair in pairs):
        every = _and([place.framework for place in places])
        return f"By {measure} {where}, {every} cannot be told apart{_though(singles)}."
    text = f"By {measure} {where}: {_listed(places)}"
    text += "".join(f"; {_and(group)} cannot be told apart" for group in together)
    return f"{text}{_against(pairs, singles)}."


def _uncompared(places: Sequence[Place], left_out: Sequence[str]) -> str:
    """Which variants the ranking leaves out."""
    if not left_out:
        return ""
    named = listed(left_out)
    return f" These are the {len(places)} fastest of {len(places) + len(left_out)} variants; not compared: {named}."


def _listed(places: Sequence[Place]) -> str:
    first, *others = places
    parts = [f"{place.framework} ({place.ratio:.2f} times as much)" for place in others]
    return f"{first.framework} before {', '.join(parts)}"


def _and(names: Sequence[str]) -> str:
    """Names as a list in words.

    >>> _and(["torch", "jax", "mxnet"])
    'torch, jax and mxnet'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _though(singles: Sequence[Comparison]) -> str:
    """Single configurations that differ although the mean over all of them does not."""
    real = [pair for pair in singles if pair.real]
    if not real:
        return ""
    most = max(real, key=lambda pair: abs(np.log(pair.ratio)))
    ratio = max(most.ratio, 1 / most.ratio)
    return (
        f" on average, but {len(real)} of {len(singles)} comparisons of single configurations differ: "
        f"{_levels(most, singles)}, {most.better} differs from {_other(most)} by a factor of {ratio:.2f}"
    )


def _against(pairs: Sequence[Comparison], singles: Sequence[Comparison]) -> str:
    """A configuration in which the order is the other way round beyond doubt."""
    better = {(pair.first, pair.second): pair.better for pair in pairs if pair.real}
    turned = [
        pair for pair in singles if pair.real and better.get((pair.first, pair.second), pair.better) != pair.better
    ]
    if not turned:
        return ""
    most = max(turned, key=lambda pair: abs(np.log(pair.ratio)))
    return f"; not everywhere: {_levels(most, singles)}, {most.better} is better than {_other(most)}"


def _other(pair: Comparison) -> str:
    return pair.second if pair.better == pair.first else pair.first


def _levels(pair: Comparison, singles: Sequence[Comparison]) -> str:
    """The configuration of a comparison, by the factors that vary."""
    own = pair.factors or {}
    varied = [name for name in own if len({str((single.factors or {}).get(name)) for single in singles}) > 1]
    return "with " + ", ".join(f"{name} {own[name]}" for name in varied)
