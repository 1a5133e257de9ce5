"""Which rows and columns of a table a model is fitted to, and what was assumed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from steplab.core.errors import NotEnoughData, TableError, nearest
from steplab.models.columns.roles import Roles, infer_roles
from steplab.models.columns.setting import Setting, setting_of

DEFAULT_TARGET = "t_iter"
LARGEST = 1e100  # squares and products of larger numbers are none
# A text column with more levels than this names rows rather than a factor.
MOST_LEVELS = 20

ONE_ROW = "each configuration has one row: intervals hold what the model misses, not the noise of a repetition"


@dataclass(frozen=True)
class Chosen:
    """What a model is fitted to: rows without gaps, roles, replicate groups, and what to tell the user."""

    X: pd.DataFrame
    y: pd.Series
    roles: Roles
    groups: np.ndarray | None
    notes: tuple[str, ...]
    setting: Setting | None = None  # what a study held fixed


def choose(
    frame: pd.DataFrame, target: str | None, asked: Roles, group: str | None = None, factors: Sequence[str] = ()
) -> Chosen:
    """The rows and columns for a model; without any role the known factors, or types and names, decide."""
    notes: list[str] = []
    name = _target(frame, target)
    for column in asked.columns:
        _require(frame, column)
        if column == name:
            raise TableError(f"column {column!r} is the target", hint="take it out of the factors")
    roles = asked if asked.columns else _inferred(frame, name, factors, notes)
    left_out = [factor for factor in factors if asked.columns and factor not in asked.columns and factor in frame]
    varying = [factor for factor in left_out if factor != name and frame[factor].nunique(dropna=True) > 1]
    if varying:
        notes.append(f"left out, though varied: {', '.join(varying)}; trials that differ in it count as repetitions")
    _require_numbers(frame, (*roles.numeric, name))
    chosen = _complete(frame, name, roles, group, notes)
    return replace(chosen, setting=setting_of(chosen.X, factors, roles.columns))


def _require(frame: pd.DataFrame, column: str) -> None:
    if column not in frame.columns:
        raise TableError(f"there is no column {column!r}", hint=nearest(column, [str(c) for c in frame.columns]))


def _target(frame: pd.DataFrame, target: str | None) -> str:
    if target is None and DEFAULT_TARGET not in frame.columns:
        numeric = [str(c) for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c])]
        raise TableError("no target is named", hint=f"give --target, one of {', '.join(numeric) or 'no columns'}")
    name = target or DEFAULT_TARGET
    _require(frame, name)
    return name


def _require_numbers(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    for column in columns:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            present = frame[column].dropna().astype(str)
            numbers = pd.to_numeric(present, errors="coerce")
            odd = present[numbers.isna()]
            example = odd.iloc[0] if len(odd) else present.iloc[0]
            hint = "correct those cells, or make the column categorical"
            raise TableError(f"column {column!r} holds text such as {example!r}", hint=hint)


def _inferred(frame: pd.DataFrame, target: str, factors: Sequence[str], notes: list[str]) -> Roles:
    """Roles from names and types; constant columns and names of rows are left out, and it is said so."""
    rest = frame[[c for c in factors if c != target]] if factors else frame.drop(columns=target)
    constant = [c for c in rest.columns if rest[c].nunique(dropna=True) < 2]
    text = [c for c in rest.columns if not pd.api.types.is_numeric_dtype(rest[c])]
    labels = [c for c in text if rest[c].nunique() > min(MOST_LEVELS, max(len(rest) // 3, 2))]
    roles = infer_roles(rest.drop(columns=[*{*constant, *labels}]))
    if not roles.columns:
        raise TableError("no column varies beside the target", hint="a model needs at least one varying factor")
    parts = [f"{role} {', '.join(columns)}" for role, columns in vars(roles).items() if columns]
    notes.append("roles inferred: " + "; ".join(parts))
    unused = [str(c) for c in rest.columns if c not in roles.columns]
    if unused:
        what = "constant" if factors else "constant, label or measurement"
        notes.append(f"not used ({what}): " + ", ".join(unused))
    return roles


def _complete(frame: pd.DataFrame, target: str, roles: Roles, group: str | None, notes: list[str]) -> Chosen:
    needed = [*roles.columns, target]
    numeric = frame[[*roles.numeric, target]].to_numpy(float)
    whole = frame[needed].notna().all(axis=1).to_numpy() & np.isfinite(numeric).all(axis=1)
    if not whole.all():
        notes.append(f"{int((~whole).sum())} of {len(frame)} rows have missing values and are left out")
    kept = frame[whole].reset_index(drop=True)
    if kept.empty:
        gaps = str(frame[needed].isna().sum().idxmax())
        raise NotEnoughData("no row has all values", hint=f"column {gaps!r} has the most gaps")
    repeats = int(kept[list(roles.columns)].duplicated().sum())
    if repeats:
        rows = "row repeats" if repeats == 1 else "rows repeat"
        notes.append(f"{repeats} {rows} a configuration: replicates")
    else:
        notes.append(ONE_ROW)
    for column in (*roles.numeric, target):
        if float(kept[column].abs().max()) > LARGEST:
            raise TableError(f"column {column!r} holds numbers above {LARGEST:g}", hint="give it in another unit")
    if not kept[target].any():
        raise TableError(
            f"column {target!r} is 0 in every row", hint="there is nothing to explain: name another target"
        )
    below = int((kept[target] <= 0).sum())
    if below:
        notes.append(f"{below} values of {target!r} are zero or negative; they have no relative error")
    groups = None
    if group in kept.columns:
        groups = pd.factorize(kept[group])[0]
    elif repeats and _can_be_left_out(kept[list(roles.columns)].drop_duplicates(), roles):
        groups = kept.groupby(list(roles.columns), sort=False).ngroup().to_numpy()
    elif repeats:
        notes.append(
            "configurations are too few to leave one out: rows count by themselves, and errors in between are not known"
        )
    return Chosen(kept.drop(columns=target), kept[target].astype(float), roles, groups, tuple(notes))


def _can_be_left_out(configurations: pd.DataFrame, roles: Roles) -> bool:
    """Whether the others tell something of one that is left out: they determine a sum of all factors, and more."""
    levels = configurations.nunique()
    columns = 1 + int((levels[list(roles.numeric)] > 1).sum()) + int((levels[list(roles.categorical)] - 1).sum())
    return len(configurations) > columns + 1
