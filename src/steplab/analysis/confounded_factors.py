"""Factors that were not varied independently: what differs between their levels may be either one's doing.

Two factors are confounded if their levels fall into blocks that share none: framework a with batch size 8 alone, b with
16 alone. Levels are connected by the configurations that have both; the blocks are the connected components of that
graph (Searle: Linear Models, 1971, chapter 7: only within one can levels be compared). Numbers that overlap are not
confounded: a random design that draws each of them once still tells their slope. A level that was measured with one
level of another factor only, where others had more, is said too: averages compare it there alone. Three factors and
more can be confounded together: `jointly_confounded.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from steplab.analysis.jointly_confounded import Joint, jointly_confounded
from steplab.analysis.labels import listed
from steplab.core.trial import Level

MOST_LEVELS = 12  # of a number; beyond that it is a slope
GRID_SHARE = 0.5  # of all pairs of levels: a design that tried fewer is no grid, and gaps in it are no surprise
SHOWN = 3
Levels = tuple[Level, ...]
Pair = tuple[Level, Level]


@dataclass(frozen=True)
class Confounded:
    """Two factors whose levels fall into blocks that share none."""

    first: str
    second: str
    blocks: tuple[tuple[Levels, Levels], ...]

    @property
    def sentence(self) -> str:
        """What a person should know of it."""
        parts = listed(
            [f"{self.first} {_words(own)} with {self.second} {_words(other)} only" for own, other in self.blocks]
        )
        return (
            f"{self.first} and {self.second} were not varied independently ({parts}): what differs between these may "
            "be either one's doing."
        )

    @property
    def names(self) -> tuple[str, str]:
        """Both factors."""
        return self.first, self.second

    def within(self, factors: Sequence[str]) -> bool:
        """Whether both are among some factors."""
        return set(self.names) <= set(factors)

    def compares(self, factor: str, level: Level, other: Level) -> bool:
        """Whether two levels of one of the factors lie in one block, so that they can be compared."""
        at = self.names.index(factor)
        return any(level in block[at] and other in block[at] for block in self.blocks)


@dataclass(frozen=True)
class Gap:
    """A level that was measured with one level of another factor only, where the others had more."""

    factor: str
    level: Level
    other: str
    only: Level

    @property
    def words(self) -> str:
        """The gap as a part of a sentence."""
        return f"{self.factor} {self.level} only with {self.other} {self.only}"


@dataclass(frozen=True)
class Independence:
    """What was not varied independently in a study."""

    confounded: tuple[Confounded, ...] = ()
    gaps: tuple[Gap, ...] = ()
    joint: tuple[Joint, ...] = ()  # three factors and more, of which not all are confounded in pairs

    @property
    def sentences(self) -> list[str]:
        """What must be said of it."""
        # Pairs tell which levels; where they do not tell all, or are too many, one sentence stands for them.
        together = [joint for joint in self.joint if not self._told_by_pairs(joint)]
        apart = [pair for pair in self.confounded if not any(pair.within(joint.factors) for joint in together)]
        told = [*(joint.sentence for joint in together), *(pair.sentence for pair in apart)][:SHOWN]
        names = self.confounded_names  # of these no average is told
        parts = listed([gap.words for gap in self.gaps if gap.factor not in names])
        if parts:
            told.append(f"Not every combination was measured ({parts}): averages compare such levels there alone.")
        return told

    @property
    def confounded_names(self) -> tuple[str, ...]:
        """The factors that are confounded with others."""
        pairs = [name for pair in self.confounded for name in pair.names]
        return tuple(dict.fromkeys([*pairs, *(name for joint in self.joint for name in joint.factors)]))

    def _told_by_pairs(self, joint: Joint) -> bool:
        pairs = [pair for pair in self.confounded if pair.within(joint.factors)]
        return len(pairs) <= SHOWN and set(joint.factors) <= {name for pair in pairs for name in pair.names}

    def compares(self, factor: str, level: Level, other: Level) -> bool:
        """Whether what differs between two levels is theirs alone."""
        pairs = [pair.compares(factor, level, other) for pair in self.confounded if factor in pair.names]
        return all(pairs) and all(
            joint.compares(factor, level, other) for joint in self.joint if factor in joint.factors
        )

    def tells(self, factor: str) -> bool:
        """Whether a factor is confounded with no others."""
        return factor not in self.confounded_names


def independence(configurations: Sequence[Mapping[str, Level]], factors: Iterable[str]) -> Independence:
    """What was not varied independently; a factor that some configurations lack is left out."""
    names = [name for name in factors if _varies(configurations, name)]
    # Words before numbers: a framework was measured with a batch size, not the other way round.
    names.sort(key=lambda name: not isinstance(configurations[0][name], str))
    confounded: list[Confounded] = []
    gaps: list[Gap] = []
    drawn: set[str] = set()  # numbers that overlap
    for first, second in combinations(names, 2):
        pairs = list(dict.fromkeys((levels[first], levels[second]) for levels in configurations))
        if _slope(own for own, _ in pairs) or _slope(other for _, other in pairs):
            continue
        blocks = _blocks(pairs)
        if len(blocks) == 1:
            gaps += _gaps(first, second, pairs) + _gaps(second, first, [(other, own) for own, other in pairs])
        elif _apart([own for own, _ in blocks]) and _apart([other for _, other in blocks]):
            confounded.append(Confounded(first, second, tuple(blocks)))
        else:
            drawn |= {first, second}
    return Independence(tuple(confounded), tuple(gaps), jointly_confounded(configurations, names, drawn))


def _varies(configurations: Sequence[Mapping[str, Level]], name: str) -> bool:
    return all(name in levels for levels in configurations) and len({own[name] for own in configurations}) > 1


def _slope(levels: Iterable[Level]) -> bool:
    """Whether these are numbers with too many levels for a category."""
    different = set(levels)
    return len(different) > MOST_LEVELS and not any(isinstance(level, str) for level in different)


def _blocks(pairs: Sequence[Pair]) -> list[tuple[Levels, Levels]]:
    """The connected components of the graph whose edges are the pairs, each as its levels of both factors."""
    parents: dict[tuple[int, Level], tuple[int, Level]] = {}

    def root(node: tuple[int, Level]) -> tuple[int, Level]:
        while (parent := parents.setdefault(node, node)) != node:
            parents[node] = parents[parent]
            node = parents[node]
        return node

    for own, other in pairs:
        parents[root((0, own))] = root((1, other))
    blocks: dict[tuple[int, Level], tuple[dict[Level, None], dict[Level, None]]] = {}
    for own, other in pairs:
        block = blocks.setdefault(root((0, own)), ({}, {}))
        block[0][own] = block[1][other] = None
    return [(tuple(firsts), tuple(seconds)) for firsts, seconds in blocks.values()]


def _apart(levels: Sequence[Levels]) -> bool:
    """Whether the levels of blocks do not overlap; words never do."""
    numbers = [[float(level) for level in own if not isinstance(level, str)] for own in levels]
    if not all(numbers):
        return True
    ranges = sorted((min(own), max(own)) for own in numbers)
    return all(before[1] < after[0] for before, after in pairwise(ranges))


def _gaps(factor: str, other: str, pairs: Sequence[Pair]) -> list[Gap]:
    """The levels of a factor of words that saw one level of another, where some saw several."""
    seen: dict[Level, list[Level]] = {}
    for own, level in pairs:
        seen.setdefault(own, []).append(level)
    whole = len(seen) * len({level for _, level in pairs})
    if len(pairs) < GRID_SHARE * whole or not all(isinstance(own, str) for own in seen):
        return []
    return [Gap(factor, own, other, levels[0]) for own, levels in seen.items() if len(levels) == 1]


def _words(levels: Levels) -> str:
    return ", ".join(map(str, levels[:SHOWN])) + (" …" if len(levels) > SHOWN else "")
