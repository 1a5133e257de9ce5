"""The measured trials of a study, sorted into configurations and into series that differ in the workers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.unknown_work import Falling, falling_series
from steplab.core import placement
from steplab.core.trial import Level, plain_level

Indices = NDArray[np.int64]
# Said wherever a difference is shown of configurations that have one number each, as averages from elsewhere do.
NO_NOISE = (
    "Every configuration has one number, without replicates or iterations, so nothing tells a difference from noise: "
    "no difference here is sure."
)
STRONG = "global_batch_size"  # the factor that fixes the work of all workers together


@dataclass(frozen=True)
class Configurations:
    """The trials that count; `of` is the configuration of each row, `first` the first row of each configuration."""

    rows: pd.DataFrame
    keys: tuple[str, ...]
    of: Indices
    first: Indices

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def workers(self) -> Indices:
        """The number of workers of each configuration."""
        return self.rows["workers"].to_numpy(dtype=np.int64)[self.first]

    @cached_property
    def batch(self) -> NDArray[np.float64]:
        """The batch size of each worker, by configuration; NaN where nobody says it."""
        return self.rows["batch_size"].to_numpy(dtype=float)[self.first]

    @cached_property
    def factors(self) -> list[dict[str, Level]]:
        """The levels of each configuration; a factor that does not apply to it is left out."""
        columns = [whole_again(self.rows[name].iloc[self.first].tolist()) for name in self.keys]
        return [
            {name: plain_level(level) for name, level in zip(self.keys, levels, strict=True) if not missing(level)}
            for levels in (zip(*columns, strict=True) if columns else [()] * len(self))
        ]

    @property
    def scale(self) -> str:
        """The factor that the number of workers follows: itself, or the nodes that a study gives in its place."""
        if len(set(self.workers.tolist())) < 2:
            return "workers"  # it follows nothing, whatever an imported table calls nodes
        return next((name for name in placement.FACTORS if name in self.keys), "workers")

    @cached_property
    def series(self) -> Indices:
        """The series of each configuration: all that it shares with others is everything but the workers."""
        return _numbered(self.rows.iloc[self.first], [name for name in self.keys if name != self.scale])[0]

    @cached_property
    def machine_users(self) -> Indices:
        """Equal numbers for configurations that differ in workers and threads alone: the ways to use a machine."""
        return _numbered(
            self.rows.iloc[self.first], [name for name in self.keys if name not in ("workers", "threads")]
        )[0]

    def alike(self, at: int, name: str) -> list[int]:
        """The configurations that differ from this one in one factor alone."""
        if name not in self._alike:
            numbers, _ = _numbered(self.rows.iloc[self.first], [key for key in self.keys if key != name])
            together: dict[int, list[int]] = {}
            for other, number in enumerate(numbers.tolist()):
                together.setdefault(number, []).append(other)
            self._alike[name] = [together[number] for number in numbers.tolist()]
        return [other for other in self._alike[name][at] if other != at]

    @cached_property
    def _alike(self) -> dict[str, list[list[int]]]:
        return {}

    @cached_property
    def strong(self) -> NDArray[np.bool_]:
        """Whether a configuration's workers share one batch (strong scaling) or each have their own (weak)."""
        if self.unknown_work:
            return np.full(len(self), self.falling.shared)
        if STRONG not in self.keys:
            return np.zeros(len(self), dtype=bool)
        return self.rows[STRONG].notna().to_numpy()[self.first]

    @cached_property
    def falling(self) -> Falling:
        """How many series get shorter steps with more workers: who does the work where nobody says it."""
        return falling_series(self._medians, self.workers, self.series)

    @cached_property
    def unknown_work(self) -> bool:
        """Whether no batch size is known, so that the work of a step is not."""
        return bool(len(self) and np.isnan(self.batch).all())

    @cached_property
    def work(self) -> NDArray[np.float64]:
        """The work of a step: samples of all workers; where no batch size is known, in a unit of its own."""
        if self.unknown_work:
            return np.where(self.strong, 1.0, self.workers)
        return self.batch * self.workers

    @cached_property
    def _medians(self) -> NDArray[np.float64]:
        return self.medians(["t_iter"])["t_iter"].to_numpy(dtype=float)

    @cached_property
    def members(self) -> list[Indices]:
        """The rows of each configuration."""
        order = np.argsort(self.of, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.of, minlength=len(self)))[:-1]) if len(self) else []

    def values(self, name: str) -> NDArray[np.float64]:
        """A numeric column of the rows; NaN where it was not measured or does not exist."""
        if name not in self.rows:
            return np.full(len(self.rows), np.nan)
        return pd.to_numeric(self.rows[name], errors="coerce").to_numpy(dtype=float)

    def medians(self, names: Sequence[str]) -> pd.DataFrame:
        """Medians over the trials of each configuration, of the columns that there are."""
        have = {name: self.values(name) for name in names if name in self.rows}
        return pd.DataFrame(have, index=range(len(self.of))).groupby(self.of).median()


def whole_again(levels: list[Any]) -> list[Any]:
    """Levels of which some are missing: a table holds whole numbers beside them as others.

    >>> whole_again([4.0, float("nan")]), whole_again([0.5, float("nan")]), whole_again([4.0])
    ([4, nan], [0.5, nan], [4.0])
    """
    known = [level for level in levels if not missing(level)]
    if len(known) == len(levels) or not all(isinstance(level, float) and level.is_integer() for level in known):
        return levels
    return [level if missing(level) else int(level) for level in levels]


def configurations(trials: pd.DataFrame, factors: Sequence[str]) -> Configurations:
    """Sort the trials that were measured."""
    ok = trials[(trials["status"] == "ok") & (trials["t_iter"] > 0)] if len(trials) else trials
    keys = tuple(name for name in factors if name in ok)
    of, first = _numbered(ok, keys)
    return Configurations(ok.reset_index(drop=True), keys, of, first)


def without_noise(trials: pd.DataFrame, factors: Sequence[str]) -> bool:
    """Whether nothing tells noise from a difference: no configuration has two good trials, no trial two iterations."""
    if "t_iter_low" not in trials or not len(trials):
        return False
    good = trials[(trials["status"] == "ok") & (trials["t_iter"] > 0)]
    keys = [name for name in factors if name in good]
    repeated = good.duplicated(keys).any() if keys else len(good) > 1
    return bool(len(good) and not repeated and good["t_iter_low"].isna().all())


def _numbered(rows: pd.DataFrame, names: Sequence[str]) -> tuple[Indices, Indices]:
    """Equal rows get equal numbers, in order of appearance; and where each number appears first."""
    if not len(rows):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    codes = np.zeros(len(rows), dtype=np.int64)
    for name in names:
        own, levels = pd.factorize(rows[name], use_na_sentinel=False)
        # Renumbered at once, so that products of many factors' levels cannot overflow.
        codes, _ = pd.factorize(codes * max(len(levels), 1) + own)
    _, first = np.unique(codes, return_index=True)
    return codes.astype(np.int64), first.astype(np.int64)


def missing(value: Any) -> bool:
    """Whether a level is none at all.

    >>> missing(None), missing(float("nan")), missing("sync")
    (True, True, False)
    """
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
