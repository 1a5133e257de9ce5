"""Factors that are confounded together although no two of them are: jax with 2 threads, batch size 64 with 2 threads.

Whether two levels of a factor can be compared is a question to the additive model of all factors: the difference of
their effects is estimable exactly if it is orthogonal to the null space of the model matrix (Searle: Linear Models,
1971, chapter 5). Words and numbers of a few levels are categories; numbers of more are slopes, because a design that
draws each of them once still tells their slope. Factors that share a direction of the null space are confounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from steplab.core.trial import Level

CATEGORY = 4  # levels of a number; one of more is a slope
MOST_WORDS = 50  # levels of a factor of words; more are no factor of a design
SINGULAR = 1e-9  # of the largest eigenvalue: what is smaller is rounding
SHARED = 1e-6  # of a direction of the null space: what is smaller is rounding
Array = NDArray[np.float64]
Levels = tuple[Level, ...]


@dataclass(frozen=True)
class Joint:
    """Factors that are confounded together; `classes` holds, in their order, levels that can be compared."""

    factors: tuple[str, ...]
    classes: tuple[tuple[Levels, ...], ...]
    configurations: int

    @property
    def sentence(self) -> str:
        """What a person should know of it."""
        *names, last = map(_named, self.factors, self.classes)
        return (
            f"{', '.join(names)} and {last} were not varied independently (none of them changes alone{self._where} in "
            f"the {self.configurations} configurations): what differs between these may be any one's doing."
        )

    @property
    def _where(self) -> str:
        """Levels of one class may change alone; only between classes nothing does."""
        return "" if all(len(same) == 1 for classes in self.classes for same in classes) else " between these levels"

    def compares(self, factor: str, level: Level, other: Level) -> bool:
        """Whether what differs between two levels of one of the factors is theirs alone."""
        return any(level in same and other in same for same in self.classes[self.factors.index(factor)])


def _named(factor: str, classes: Sequence[Levels]) -> str:
    """A factor, with those levels that cannot be told from which others, where some can."""
    if all(len(same) == 1 for same in classes):
        return factor
    return f"{factor} ({' against '.join(', '.join(map(str, same)) for same in classes)})"


@dataclass(frozen=True)
class _Coded:
    """A factor in the model matrix: its levels, and its column of each, one for all of a slope."""

    name: str
    levels: Levels
    columns: Array  # a row per configuration
    slope: bool

    def classes(self, null: Array) -> tuple[Levels, ...]:
        """The levels by what the null space, in this factor's columns, does to them."""
        if self.slope:
            return tuple((level,) for level in self.levels)
        moved = np.vstack([np.zeros(null.shape[1]), null])  # the first level is the reference
        classes: list[tuple[Array, list[Level]]] = []
        for level, row in zip(self.levels, moved, strict=True):
            same = next((own for first, own in classes if np.abs(first - row).max() < SHARED), None)
            if same is None:
                classes.append((row, [level]))
            else:
                same.append(level)
        return tuple(tuple(own) for _, own in classes)


def jointly_confounded(
    configurations: Sequence[Mapping[str, Level]], factors: Iterable[str], slopes: Iterable[str]
) -> tuple[Joint, ...]:
    """The sets of factors that no additive model tells apart; `slopes` are numbers that count as slopes anyway."""
    drawn = frozenset(slopes)
    coded = [part for name in factors if (part := _coded(name, configurations, name in drawn)) is not None]
    if len(coded) < 3:
        return ()
    null = _null_space(np.hstack([part.columns for part in coded]))
    ends = np.cumsum([0, *(part.columns.shape[1] for part in coded)])
    rows = [null[start:end] for start, end in pairwise(ends)]
    return tuple(
        Joint(
            tuple(coded[at].name for at in members),
            tuple(coded[at].classes(rows[at]) for at in members),
            len(configurations),
        )
        for members in _components(rows)
    )


def _coded(name: str, configurations: Sequence[Mapping[str, Level]], drawn: bool) -> _Coded | None:
    values = [levels[name] for levels in configurations]
    words = any(isinstance(value, str) for value in values)
    levels = tuple(dict.fromkeys(values) if words else sorted(set(values), key=float))
    if words and len(levels) > MOST_WORDS:
        return None
    if not words and (drawn or len(levels) > CATEGORY):
        return _Coded(name, levels, _slope(np.array(values, dtype=float)), True)
    indicators = [[float(value == level) for level in levels[1:]] for value in values]
    return _Coded(name, levels, np.array(indicators), False)


def _slope(values: Array) -> Array:
    """A number as a column, of logarithms where they exist."""
    return (np.log(values) if (values > 0).all() else values)[:, None]


def _null_space(columns: Array) -> Array:
    """The directions in which effects can change without any change of the configurations' times."""
    centred = columns - columns.mean(axis=0)
    scale = np.linalg.norm(centred, axis=0)
    scaled = centred / scale
    sizes, directions = np.linalg.eigh(scaled.T @ scaled)
    # In the columns' own units, so that a level's row is what is added to its effect.
    null = directions[:, sizes < SINGULAR * sizes[-1]] / scale[:, None]
    return np.asarray(null / np.abs(null).max(axis=0) if null.size else null)


def _components(rows: Sequence[Array]) -> list[list[int]]:
    """The factors that share directions of the null space, three or more at a time."""
    involved = [at for at, own in enumerate(rows) if own.size and np.abs(own).max() > SHARED]
    basis = np.linalg.qr(np.vstack(rows))[0] if involved else np.empty((0, 0))
    ends = np.cumsum([0, *(len(own) for own in rows)])
    own = {at: basis[ends[at] : ends[at + 1]] for at in involved}
    components: list[list[int]] = []
    for at in involved:
        linked = [part for part in components if any(np.abs(own[at] @ own[other].T).max() > SHARED for other in part)]
        components = [part for part in components if part not in linked] + [sorted([at, *chain(*linked)])]
    return [part for part in components if len(part) > 2]
