"""What a study held fixed while the factors of a model varied: enough to know the whole configuration again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from steplab.core.trial import Level, plain_level

# By the factor's name; None where it varied although no model reads it. `kind` is that of the trials.
Setting = Mapping[str, Level | None]
KIND = "kind"


def setting_of(rows: pd.DataFrame, factors: Sequence[str], columns: Sequence[str]) -> Setting | None:
    """The factors of a study that a model of these columns does not read; None of a table that is no study."""
    if not factors:
        return None
    names = [name for name in (*factors, KIND) if name in rows.columns and name not in columns]
    return {name: _fixed(rows[name]) for name in names}


def _fixed(levels: pd.Series) -> Level | None:
    different = levels.unique()
    return plain_level(different[0]) if len(different) == 1 and pd.notna(different[0]) else None


def saved_setting(saved: object) -> Setting | None:
    """The setting in a saved model's document; a ValueError means a damaged one."""
    if saved is None:
        return None
    if not isinstance(saved, Mapping):
        raise ValueError("the setting is damaged")
    for name, level in saved.items():
        if not isinstance(name, str) or not (level is None or isinstance(level, bool | int | float | str)):
            raise ValueError(f"the setting of {name!r} is damaged")
    return dict(saved)
