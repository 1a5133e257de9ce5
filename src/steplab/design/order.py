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
    """Every configuration once in each block, as given or shuffled anew; a block is made when it is asked for."""

    configurations: int
    design: Design
    replicates: int

    def size(self, replicate: int) -> int:
        """How many trials a block has."""
        return self.configurations

    def rows(self, replicate: int) -> Rows:
        """The configurations of a block in the order in which they run."""
        seed = self.design.seed if self.design.order == "random" else None
        return _shuffled(self.configurations, seed, replicate)


@lru_cache(maxsize=2)
def _shuffled(n: int, seed: int | None, replicate: int) -> Rows:
    return np.arange(n) if seed is None else np.random.default_rng([seed, 1, replicate]).permutation(n)


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
