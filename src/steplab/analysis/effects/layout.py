"""Which trials, factors, levels, blocks and cells a designed experiment has, and which are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.configurations import without_noise
from steplab.analysis.effects.findings import NEVER, MissingCell
from steplab.core.trial import UNSUPPORTED, Level, plain_level, tally

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
MOST_LEVELS = 50  # of a factor that is words
MOST_NUMERIC_LEVELS = 12  # beyond that a number is a slope, not a category
MOST_BLOCKS = 200
MOST_CELLS = 200_000  # a larger grid is not searched for empty cells
GRID_SHARE = 0.5  # a design that tried a smaller share of its grid is no factorial


@dataclass(frozen=True)
class Factor:
    """A factor as a category: its levels and each trial's position among them."""

    name: str
    levels: tuple[Level, ...]
    codes: Codes


@dataclass(frozen=True)
class Slope:
    """A number with too many levels for a category: one centred column, of logarithms where they exist."""

    name: str
    values: Array
    spread: float
    logged: bool
    least: Level = 0
    most: Level = 0


@dataclass(frozen=True)
class Layout:
    """The good trials of a study, coded."""

    table: pd.DataFrame
    seconds: Array
    factors: tuple[Factor, ...]
    slopes: tuple[Slope, ...]
    block: Codes
    cell: Codes
    missing: list[MissingCell]
    broken: tuple[str, ...]
    grid: bool  # whether (nearly) all combinations of levels were tried
    notes: tuple[str, ...]
    without_noise: bool = False  # whether every configuration has one number and nothing more

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return int(self.block.max()) + 1 if self.block.size else 0

    @property
    def cells(self) -> int:
        """How many configurations have good trials."""
        return int(self.cell.max()) + 1 if self.cell.size else 0


def layout(trials: pd.DataFrame, names: Sequence[str]) -> Layout:
    """Code the good trials of a study by factor, block and cell."""
    good = (trials["status"] == "ok") & (trials["t_iter"] > 0)
    ok = trials[good].reset_index(drop=True)
    factors, slopes, notes = _kinds(ok, names)
    block, note = _blocks(ok)
    columns = [factor.codes for factor in factors] + [_codes(slope.values) for slope in slopes]
    varied = [name for name in names if name in trials and trials[name].nunique() > 1 and trials[name].notna().all()]
    missing, grid = _empty_cells(trials, ok, varied) if not slopes else ([], False)
    return Layout(
        table=ok,
        seconds=ok["t_iter"].to_numpy(dtype=float),
        factors=tuple(factors),
        slopes=tuple(slopes),
        block=block,
        cell=_combined(columns, len(ok)),
        missing=missing,
        broken=_broken(trials[~good & (trials["status"] != UNSUPPORTED)]),
        grid=grid,
        notes=(*notes, *note),
        without_noise=without_noise(trials, names),
    )


def _kinds(ok: pd.DataFrame, names: Sequence[str]) -> tuple[list[Factor], list[Slope], list[str]]:
    """The factors that vary, as categories or slopes, and words on those that cannot be used."""
    factors: list[Factor] = []
    slopes: list[Slope] = []
    notes: list[str] = []
    for name in names:
        if name not in ok or ok[name].nunique(dropna=False) < 2:
            continue
        numeric = pd.api.types.is_numeric_dtype(ok[name]) and not pd.api.types.is_bool_dtype(ok[name])
        count = ok[name].nunique()
        if ok[name].isna().any():
            notes.append(f"{name} has no value in some trials, so it is not analysed as a factor.")
        elif numeric and count > MOST_NUMERIC_LEVELS:
            slopes.append(_slope(ok, name))
            notes.append(f"{name} has {count} levels and counts as one slope, not as a category.")
        elif count > MOST_LEVELS:
            notes.append(f"{name} has {count} levels, too many for a category: it is left out.")
        else:
            factors.append(_factor(ok, name))
    return factors, slopes, notes


def _factor(ok: pd.DataFrame, name: str) -> Factor:
    codes, levels = pd.factorize(ok[name], sort=True)
    return Factor(name, tuple(plain_level(level) for level in levels), codes.astype(np.int64))


def _slope(ok: pd.DataFrame, name: str) -> Slope:
    values = ok[name].to_numpy(dtype=float)
    logged = bool((values > 0).all())
    moved = np.log(values) if logged else values
    spread = float(moved.std())
    ends = (readable(plain_level(ok[name].min())), readable(plain_level(ok[name].max())))
    return Slope(name, (moved - moved.mean()) / spread, spread, logged, *ends)


def readable(level: Level) -> Level:
    """A level of a slope as sentences show it; random designs draw numbers with sixteen digits."""
    return float(f"{level:.4g}") if isinstance(level, float) else level


def _blocks(ok: pd.DataFrame) -> tuple[Codes, tuple[str, ...]]:
    codes = _codes(ok["replicate"].to_numpy()) if "replicate" in ok else np.zeros(len(ok), dtype=np.int64)
    if codes.size and codes.max() >= MOST_BLOCKS:
        none = np.zeros(len(ok), dtype=np.int64)
        return none, (f"There are more than {MOST_BLOCKS} replicates: they are not taken as blocks.",)
    return codes, ()


def _codes(values: NDArray[np.generic]) -> Codes:
    return pd.factorize(values, sort=True)[0].astype(np.int64)


def _combined(columns: Sequence[Codes], rows: int) -> Codes:
    """One code for each combination that occurs; renumbered at every step, so that it cannot overflow."""
    codes = np.zeros(rows, dtype=np.int64)
    for column in columns:
        codes = _codes(codes * (int(column.max()) + 1 if rows else 1) + column)
    return codes


def _broken(bad: pd.DataFrame) -> tuple[str, ...]:
    """The failed trials and their reasons."""
    if not len(bad):
        return ()
    reasons = bad["reason"] if "reason" in bad else pd.Series([""] * len(bad), index=bad.index)
    texts = (_reason(reason) for reason in reasons)
    rows = zip(bad["trial"], bad["status"], texts, strict=True)
    return tuple(f"{trial} ({status}{': ' + why if why else ''})" for trial, status, why in rows)


def _reason(value: object) -> str:
    """The first line of a reason, cut to a readable length."""
    line = value.strip().partition("\n")[0] if isinstance(value, str) else ""
    return line if len(line) <= 80 else line[:79] + "…"


def _empty_cells(trials: pd.DataFrame, ok: pd.DataFrame, names: list[str]) -> tuple[list[MissingCell], bool]:
    """The combinations without a good trial, if the design is a grid of all combinations, or nearly."""
    tried = [sorted(trials[name].unique()) for name in names]
    size = prod(len(levels) for levels in tried)
    if not names or size > MOST_CELLS or trials.groupby(names).ngroups < GRID_SHARE * size:
        return [], False
    have = set(ok[names].drop_duplicates().itertuples(index=False, name=None))
    if len(have) == size:
        return [], True
    bad = trials[trials["status"] != "ok"]
    return [_missing(cell, names, bad) for cell in product(*tried) if cell not in have], True


def _missing(cell: Sequence[object], names: Sequence[str], bad: pd.DataFrame) -> MissingCell:
    same = np.logical_and.reduce([(bad[name] == level).to_numpy() for name, level in zip(names, cell, strict=True)])
    there = bad[same]
    levels = tuple((name, plain_level(level)) for name, level in zip(names, cell, strict=True))
    if not len(there):
        return MissingCell(levels, 0, NEVER)
    statuses = ", ".join(sorted(set(there["status"])))
    return MissingCell(levels, tally(there["status"]).failed, statuses)
