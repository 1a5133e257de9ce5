"""Which column plays which part in a performance model: intrinsic, categorical or extrinsic.

Intrinsic factors describe the network and the training, extrinsic ones the scale at which it runs (batch
size, workers), as in the generic performance model (MMU thesis, chapter 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError, nearest
from steplab.core.memory_columns import MEMORY
from steplab.models.columns.meaning import is_scale
from steplab_worker.phases import WORDS

# What a study's table holds beside its factors: bookkeeping and measurements, never inferred as factors.
NOT_FACTORS = frozenset({
    *WORDS, "trial", "replicate", "configuration", "status", "reason", "run", "epoch", "started", "t_iter_low",
    "t_iter_high", "t_iter_phased", "observer_cost", "spread", "drift", "iterations", "lif", "throughput",
    *MEMORY, "cpu_s", "other_cpu_s", "energy", "energy_source", "energy_j", "energy_provenance", "loss",
    "compile_s", "recompilations", "seconds", "data_source", "variables", "rank_hosts",
})  # fmt: skip
LONGEST = 40  # characters of a value that is repeated to its writer


@dataclass(frozen=True)
class Roles:
    """The columns of each part, in order."""

    intrinsic: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    extrinsic: tuple[str, ...] = ()

    @property
    def numeric(self) -> tuple[str, ...]:
        """Intrinsic, then extrinsic columns."""
        return self.intrinsic + self.extrinsic

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the model reads."""
        return self.intrinsic + self.categorical + self.extrinsic


def infer_roles(X: pd.DataFrame) -> Roles:
    """Text columns are categorical, names such as `workers` extrinsic, other numbers intrinsic.

    >>> infer_roles(pd.DataFrame({"filters": [4, 8], "workers": [1, 2], "padding": ["same", "valid"]}))
    Roles(intrinsic=('filters',), categorical=('padding',), extrinsic=('workers',))
    """
    factors = [c for c in X.columns if str(c) not in NOT_FACTORS]
    numeric = [c for c in factors if pd.api.types.is_numeric_dtype(X[c]) and X[c].dtype != bool]
    extrinsic = [c for c in numeric if is_scale(str(c))]
    return Roles(
        tuple(str(c) for c in numeric if c not in extrinsic),
        tuple(str(c) for c in factors if c not in numeric),
        tuple(str(c) for c in extrinsic),
    )


Names = str | Sequence[str] | None


def names(given: Names) -> tuple[str, ...]:
    """The columns that an option names: a text is one column, None is none.

    >>> names("workers"), names(["batch_size", "workers"]), names(None)
    (('workers',), ('batch_size', 'workers'), ())
    """
    if given is None or isinstance(given, str):
        return (given,) if given else ()
    return tuple(given)


def roles_for(X: pd.DataFrame, intrinsic: Names, categorical: Names, extrinsic: Names) -> Roles:
    """The roles that were asked for; without any, those that the columns suggest."""
    roles = Roles(names(intrinsic), names(categorical), names(extrinsic))
    roles = roles if roles.columns else infer_roles(X)
    twice = {column for column in roles.columns if roles.columns.count(column) > 1}
    if twice:
        raise ModelError(f"column {min(twice)!r} has two roles", hint="give each column one role")
    if not roles.columns:
        raise ModelError("there is no column to model with", hint="name intrinsic, categorical or extrinsic columns")
    return roles


def features(X: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """The columns of the roles: numbers as finite floats, categories as text, rows numbered from 0."""
    columns = {}
    for column in roles.columns:
        if column not in X.columns:
            raise ModelError(f"there is no column {column!r}", hint=nearest(column, [str(c) for c in X.columns]))
        values = X[column]
        columns[column] = _text(values) if column in roles.categorical else _numbers(values, column)
    # Plain objects: pandas would otherwise turn text into its string type, on which all is slower.
    text = {c: pd.Series(columns[c], dtype=object) for c in roles.categorical}
    return pd.DataFrame({**columns, **text}, index=pd.RangeIndex(len(X)), columns=list(roles.columns))


def _text(values: pd.Series) -> np.ndarray:
    given = values.tolist()
    # 1.0 and 1 are one level, however the table was read.
    if set(map(type, given)) - {str}:
        given = [f"{value:g}" if isinstance(value, float) else str(value) for value in given]
    texts = np.empty(len(given), dtype=object)
    texts[:] = given
    return texts


def _numbers(values: pd.Series, column: str) -> np.ndarray:
    plain = values.dtype == float
    numbers = values.to_numpy() if plain else pd.to_numeric(values, errors="coerce").to_numpy(float)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        first = values.iloc[int(np.argmax(wrong))]
        hint = "remove those rows, or make the column categorical"
        told = repr(first) if len(repr(first)) <= LONGEST else f"{repr(first)[:LONGEST]}…"
        raise ModelError(f"column {column!r} holds {told}, which is not a finite number", hint=hint)
    return numbers


def canonical_order(frame: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """An order of the rows that depends on their contents only: models become invariant to row order."""
    keys = [y, *(frame[column].to_numpy() for column in frame.columns)]
    return np.lexsort([_codes(key) if key.dtype == object else key for key in keys])


def _codes(key: np.ndarray) -> np.ndarray:
    values = key.tolist()
    rank = {name: i for i, name in enumerate(sorted(set(values)))}
    return np.fromiter(map(rank.__getitem__, values), int, len(values))
