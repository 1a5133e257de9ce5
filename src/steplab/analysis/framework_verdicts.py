"""Which of two frameworks is better in a configuration, by the verdict of their pair, for whoever asks it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from steplab.analysis.configurations import Configurations
from steplab.analysis.frameworks import Comparison
from steplab.analysis.verdicts import own_factors
from steplab.core.trial import Level

Key = frozenset[tuple[str, Level]]


@dataclass(frozen=True)
class FrameworkVerdicts:
    """The verdicts on pairs of configurations that differ in the framework and its own factors alone."""

    better: Mapping[frozenset[Key], Key | None] = field(default_factory=dict)  # None: cannot be told apart

    def surely_better(self, one: Mapping[str, Level], other: Mapping[str, Level]) -> bool | None:
        """Whether the one is; None where the two were not compared as frameworks."""
        pair = frozenset((frozenset(one.items()), frozenset(other.items())))
        return self.better[pair] == frozenset(one.items()) if pair in self.better else None


def framework_verdicts(cells: Configurations, comparisons: Sequence[Comparison], measure: str) -> FrameworkVerdicts:
    """The verdicts by one measure, by the factors of the two configurations."""
    variants = _by_variant(cells)
    better: dict[frozenset[Key], Key | None] = {}
    for pair in comparisons:
        if pair.measure == measure and pair.configurations == 1:
            for places in _both(pair, variants):
                better[frozenset(places.values())] = places.get(pair.better)
    return FrameworkVerdicts(better)


def _by_variant(cells: Configurations) -> dict[str, dict[Key, Key]]:
    """The configurations of each variant of a framework, by what they share with those of others."""
    own, variants = own_factors(cells), dict[str, dict[Key, Key]]()
    for levels in cells.factors:
        variant = str(levels.get("framework")) + "".join(f" {k}={v}" for k, v in levels.items() if k in own)
        shared = frozenset((k, v) for k, v in levels.items() if k not in own and k != "framework")
        variants.setdefault(variant, {})[shared] = frozenset(levels.items())
    return variants


def _both(pair: Comparison, variants: Mapping[str, Mapping[Key, Key]]) -> Iterator[dict[str, Key]]:
    """The two configurations that a comparison is about, by their variants."""
    first, second = (variants.get(name, {}) for name in (pair.first, pair.second))
    shared = first.keys() & second.keys() if pair.factors is None else {frozenset(pair.factors.items())}
    for key in shared if len(shared) == 1 else ():
        if key in first and key in second:
            yield {pair.first: first[key], pair.second: second[key]}
