"""The verdicts of frameworks in pairs on single configurations, for those who ask the same in other words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steplab.analysis.configurations import Configurations
from steplab.analysis.frameworks import Comparison
from steplab.analysis.same_configuration import Key, SameConfiguration


def framework_verdicts(cells: Configurations, comparisons: Sequence[Comparison], measure: str) -> SameConfiguration:
    """The verdicts by one measure, by the factors of the two configurations."""
    better: dict[frozenset[Key], Key | None] = {}
    for pair, *places in single_configurations(cells, comparisons, measure):
        first, second = (frozenset(cells.factors[at].items()) for at in places)
        better[frozenset((first, second))] = {pair.first: first, pair.second: second}.get(pair.better)
    return SameConfiguration(better)


def single_configurations(
    cells: Configurations, comparisons: Sequence[Comparison], measure: str
) -> Iterator[tuple[Comparison, int, int]]:
    """The comparisons by one measure that are about two single configurations, with the positions of these."""
    variants = _by_variant(cells)
    for pair in comparisons:
        if pair.measure == measure and pair.about is not None:
            key = frozenset(pair.about.items())
            first, second = (variants.get(name, {}) for name in (pair.first, pair.second))
            if key in first and key in second:
                yield pair, first[key], second[key]


def _by_variant(cells: Configurations) -> dict[str, dict[Key, int]]:
    """The positions of the configurations of each variant of a framework, by what they share with those of others."""
    own, variants = own_factors(cells), dict[str, dict[Key, int]]()
    for at, levels in enumerate(cells.factors):
        if "framework" in levels:
            variant = str(levels["framework"]) + "".join(f" {k}={v}" for k, v in levels.items() if k in own)
            shared = frozenset((k, v) for k, v in levels.items() if k not in own and k != "framework")
            variants.setdefault(variant, {})[shared] = at
    return variants


def own_factors(cells: Configurations) -> set[str]:
    """The factors that some framework has none of."""
    having: dict[object, set[str]] = {}
    for levels in cells.factors:
        having.setdefault(levels.get("framework"), set()).update(levels)
    return {name for name in cells.keys if not all(name in names for names in having.values())}
