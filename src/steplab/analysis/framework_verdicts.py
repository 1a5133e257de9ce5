"""The verdicts of frameworks in pairs on single configurations, for those who ask the same in other words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from steplab.analysis.configurations import Configurations
from steplab.analysis.frameworks import Comparison
from steplab.analysis.same_configuration import Key, SameConfiguration
from steplab.analysis.verdicts import own_factors


def framework_verdicts(cells: Configurations, comparisons: Sequence[Comparison], measure: str) -> SameConfiguration:
    """The verdicts by one measure, by the factors of the two configurations."""
    variants = _by_variant(cells)
    better: dict[frozenset[Key], Key | None] = {}
    for pair in comparisons:
        if pair.measure == measure and pair.configurations == 1:
            for places in _both(pair, variants):
                better[frozenset(places.values())] = places.get(pair.better)
    return SameConfiguration(better)


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
