"""The order in which trials run: each replicate is a block that holds every configuration once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np

from steplab.design.configurations import Rows
from steplab.study.sections import Design


class Order(Protocol):
    """Which configurations, by their rows, each replicate has, one after the other."""

    @property
    def replicates(self) -> int:
        """How many blocks there are."""
        ...

    def size(self, replicate: int) -> int:
        """How many trials a block has."""
        ...

    def rows(self, replicate: int) -> Rows:
        """The configurations of a block in the order in which they run."""
        ...


@dataclass(frozen=True)
class Blocks:
    """Every configuration once in each block, as given or shuffled anew; a block is made when it is asked for.

    `plots` has a number for each configuration: those of one number run one after the other (the whole plots of a
    split-plot design). Which plot comes when, and what comes when within it, is drawn anew for each block.
    """

    configurations: int
    design: Design
    replicates: int
    plots: Rows | None = field(default=None, hash=False)

    def size(self, replicate: int) -> int:
        """How many trials a block has."""
        return self.configurations

    def rows(self, replicate: int) -> Rows:
        """The configurations of a block in the order in which they run."""
        seed = self.design.seed if self.design.order == "random" else None
        rows = _shuffled(self.configurations, seed, replicate)
        return rows if self.plots is None else _gathered(rows, self.plots)


@lru_cache(maxsize=2)
def _shuffled(n: int, seed: int | None, replicate: int) -> Rows:
    return np.arange(n) if seed is None else np.random.default_rng([seed, 1, replicate]).permutation(n)


def _gathered(rows: Rows, plots: Rows) -> Rows:
    """Shuffled rows, those of one plot together.

    The plots come as the first configuration of each does, so that a large one has no better chance to come early.

    >>> _gathered(np.array([3, 0, 2, 1]), np.array([0, 0, 1, 1]))
    array([0, 1, 3, 2])
    """
    _, first, which = np.unique(plots, return_index=True, return_inverse=True)
    places = np.argsort(rows)  # of each row
    return rows[np.argsort(places[first][which][rows], kind="stable")]


@dataclass(frozen=True)
class Chosen:
    """Some trials of another order."""

    blocks: Mapping[int, Rows] = field(hash=False)
    replicates: int

    def size(self, replicate: int) -> int:
        """How many trials a block has."""
        return len(self.rows(replicate))

    def rows(self, replicate: int) -> Rows:
        """The configurations of a block in the order in which they run."""
        return self.blocks.get(replicate, np.empty(0, np.intp))
