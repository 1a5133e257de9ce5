"""Configurations as a table of level numbers, decoded one at a time: a million of them take little room and time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from steplab.core.resolution import applicable
from steplab.core.trial import Config, Level, id_of, id_part
from steplab.study.sections import Levels

Codes = npt.NDArray[np.signedinteger[Any]]
Rows = npt.NDArray[np.intp]
NONE = -1  # the level number of a factor that does not apply
_AT_ONCE = 8192  # configurations whose ids are made together


@dataclass(frozen=True)
class Column:
    """One factor: its levels, and the number of each configuration's level."""

    levels: Sequence[Level]
    codes: Codes

    def take(self, rows: Rows | npt.NDArray[np.bool_]) -> Column:
        """The same factor of some configurations."""
        return Column(self.levels, self.codes[rows])

    def isin(self, levels: Levels) -> npt.NDArray[np.bool_]:
        """Where the level is one of these."""
        return np.array([level in levels for level in self.levels], bool)[self.codes]


@dataclass(frozen=True)
class Distinct:
    """The different combinations that some factors take: where each comes first, and how often it comes."""

    first: Rows
    counts: npt.NDArray[np.intp]
    which: Rows  # the number of each configuration's combination


@dataclass(frozen=True)
class Configurations(Sequence[dict[str, Level]]):
    """Configurations in their order; each is made when it is asked for."""

    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return next(len(column.codes) for column in self.columns.values())

    @overload
    def __getitem__(self, at: int) -> dict[str, Level]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Level]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Level] | list[dict[str, Level]]:
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        codes = ((name, column.levels, column.codes[at]) for name, column in self.columns.items())
        return {name: levels[code] for name, levels, code in codes if code != NONE}

    def take(self, rows: Rows | npt.NDArray[np.bool_]) -> Configurations:
        """Some of them, in the order of the rows."""
        return Configurations({name: column.take(rows) for name, column in self.columns.items()})

    def distinct(self, names: Iterable[str]) -> Distinct:
        """The different combinations of the levels of these factors; of all others the first one stands for them."""
        key, size = self._key([self.columns[name] for name in names if name in self.columns])
        if size > len(self):  # too many to count each
            _, key = np.unique(key, return_inverse=True)
        counts = np.bincount(key, minlength=1)
        first = np.empty(len(counts), np.intp)
        first[key[::-1]] = np.arange(len(self))[::-1]  # what is written last stays
        there = np.flatnonzero(counts)
        return Distinct(first[there], counts[there], (np.cumsum(counts > 0) - 1)[key])

    def different(self) -> Configurations:
        """Each configuration once, where it comes first."""
        return self.take(np.sort(self.distinct(self.columns).first))

    def where(self, names: Iterable[str], holds: Callable[[Config], bool]) -> npt.NDArray[np.bool_]:
        """Where something holds that depends on these factors only; asked once for each of their combinations."""
        alike = self.distinct(names)
        return np.array([holds(self[int(row)]) for row in alike.first], bool)[alike.which]

    def excluded(self, rules: Iterable[Mapping[str, Levels]]) -> npt.NDArray[np.bool_]:
        """Where one of the rules holds: all of its factors have one of its levels."""
        out = np.zeros(len(self), bool)
        for rule in rules:
            out |= np.logical_and.reduce([self.columns[name].isin(levels) for name, levels in rule.items()])
        return out

    def applied(self) -> Configurations:
        """Without the factors that a configuration's framework and network do not know; itself if it has none such."""
        alike = self.distinct(("framework", "network"))
        columns, lacking = dict(self.columns), False
        for number, row in enumerate(alike.first):
            for name in self.columns.keys() - applicable(self[int(row)]).keys():
                codes = np.where(alike.which == number, columns[name].codes.dtype.type(NONE), columns[name].codes)
                columns[name], lacking = Column(columns[name].levels, codes), True
        return Configurations(columns) if lacking else self

    def extended(self, names: Iterable[str], entries: Callable[[Config], Mapping[str, Level]]) -> Configurations:
        """With entries that follow from the levels of these factors; asked once for each of their combinations."""
        alike = self.distinct(names)
        added = [entries(self[int(row)]) for row in alike.first]
        columns = dict(self.columns)
        for name in dict.fromkeys(name for entry in added for name in entry):
            levels = list(dict.fromkeys(entry[name] for entry in added if name in entry))
            codes = np.array([levels.index(entry[name]) if name in entry else NONE for entry in added])
            columns[name] = Column(levels, codes.astype(small_type(len(levels)))[alike.which])
        return Configurations(columns)

    def ids(self, rows: Rows, replicate: int) -> Iterator[str]:
        """The ids of the trials of some configurations, without making these."""
        parts = [(name, [*(id_part(name, level) for level in c.levels), ""], c) for name, c in self.columns.items()]
        texts = [(np.array(text, object), column) for _, text, column in sorted(parts, key=lambda part: part[0])]
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            for words in zip(*(text[column.codes[some]].tolist() for text, column in texts), strict=True):
                yield id_of(f"{{{','.join(filter(None, words))}}}", replicate)

    def _key(self, columns: Iterable[Column]) -> tuple[npt.NDArray[np.int64], int]:
        """One number for each combination of level numbers, and the number above all of them."""
        key, size = np.zeros(len(self), np.int64), 1
        for column in columns:
            count = len(column.levels) + 1
            if size * count > 2**62:
                key, size = np.unique(key, return_inverse=True)[1], len(self)
            key = key * count + (column.codes.astype(np.int64) - NONE)
            size *= count
        return key, size


def grid(factors: Mapping[str, Levels]) -> Configurations:
    """All combinations of the levels; the last factor changes fastest.

    >>> list(grid({"a": (1, 2), "b": ("x", "y")}))[1:3]
    [{'a': 1, 'b': 'y'}, {'a': 2, 'b': 'x'}]
    """
    columns, before, after = {}, 1, math.prod(map(len, factors.values()))
    for name, levels in factors.items():
        after //= len(levels)
        numbers = np.arange(len(levels), dtype=small_type(len(levels)))
        columns[name] = Column(levels, np.tile(np.repeat(numbers, after), before))
        before *= len(levels)
    return Configurations(columns)


def small_type(levels: int) -> np.dtype[np.signedinteger[Any]]:
    """The smallest type for that many level numbers and NONE."""
    return np.min_scalar_type(-max(levels, 1))
