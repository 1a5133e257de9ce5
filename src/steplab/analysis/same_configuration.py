"""Which of two configurations is better that differ in the framework alone: one verdict, whoever asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from steplab.core.trial import Level

Key = frozenset[tuple[str, Level]]  # the levels of a configuration


@dataclass(frozen=True)
class SameConfiguration:
    """The verdicts on pairs of configurations that differ in the framework and its own factors alone."""

    better: Mapping[frozenset[Key], Key | None] = field(default_factory=dict)  # None: cannot be told apart

    def surely_better(self, first: Mapping[str, Level], second: Mapping[str, Level]) -> bool | None:
        """Whether the first is; None where the two were not compared as frameworks."""
        pair = frozenset((frozenset(first.items()), frozenset(second.items())))
        return self.better[pair] == frozenset(first.items()) if pair in self.better else None
