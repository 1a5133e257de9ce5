"""Environment variables that were not the same in all trials, although no factor says so."""

from __future__ import annotations

import shlex

import pandas as pd


def differing(trials: pd.DataFrame) -> tuple[str, ...]:
    """The names of the variables that differ between measured trials; those that steplab sets are not looked at.

    >>> differing(pd.DataFrame({"variables": ["KMP_BLOCKTIME=0 TF_X=1", "TF_X=1", None]}))
    ('KMP_BLOCKTIME',)
    """
    if "variables" not in trials:
        return ()
    # Without any note (an older or an imported record) nothing is known.
    kinds = [parsed_variables(text) for text in trials["variables"].dropna().unique()]
    names = sorted({name for variables in kinds for name in variables})
    return tuple(name for name in names if len({variables.get(name) for variables in kinds}) > 1)


def parsed_variables(text: str) -> dict[str, str]:
    """Environment variables as a record's row writes them."""
    pairs = (word.partition("=") for word in shlex.split(text))
    return {name: value for name, _, value in pairs}
