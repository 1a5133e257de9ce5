"""Which trials to add to what was measured: configurations of the same factors, or replicates, with what they tell."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.core.errors import InputError, NotEnoughData, allowed
from steplab.planning.adaptive.chooser import AIMS, Aim, Batch, Observed, next_batch
from steplab.planning.adaptive.space import Space
from steplab.planning.candidates import spread_values

MOST = 2048  # configurations to choose from
MOST_TRIALS = 500  # chosen at once
FEWEST = 4  # trials from which something can be told
Level = str | float


@dataclass(frozen=True)
class NextRow:
    """A trial to add: its configuration, whether it was measured before, what it tells and costs."""

    at: dict[str, Level]
    again: bool
    why: str
    expected_s: float | None


@dataclass(frozen=True)
class NextPlan:
    """Trials to add, the most telling first; uncertainties are relative."""

    aim: str
    rows: tuple[NextRow, ...]
    why: str
    uncertainty: float | None
    expected_uncertainty: float | None
    expected_s: float | None


def plan_next(
    X: pd.DataFrame, y: pd.Series, seconds: pd.Series | None, *, aim: str = "predict", trials: int = 4,
    difference: float = 0.05, seed: int = 1,
) -> NextPlan:  # fmt: skip
    """What to measure next, from a table of factors, times, and the seconds that each trial took, if they are known."""
    if aim not in AIMS:
        raise InputError(f"there is no aim {aim!r}", hint=allowed(AIMS))
    if trials < 1:
        raise InputError(f"a budget of {trials} trials measures nothing", hint="give 1 or more")
    if trials > MOST_TRIALS:
        raise InputError(f"{trials:,} trials are more than can be chosen at once", hint=f"allowed: up to {MOST_TRIALS}")
    if aim == "compare" and not 0 < difference < math.inf:
        raise InputError(f"a difference of {difference:g} cannot be seen", hint="give one above 0, such as 0.05")
    if len(y) < FEWEST:
        raise NotEnoughData(f"{len(y)} trials tell nothing of the others", hint=f"measure at least {FEWEST}")
    if (y <= 0).any():
        raise InputError(f"{y.name} is zero or negative in places, so it is no time", hint="choose another target")
    space = Space(X.drop_duplicates(ignore_index=True) if aim == "compare" else _candidates(X, seed))
    if not (space.numeric or space.categorical):
        raise InputError("no factor varies in what was measured", hint="measure a second level of one of them")
    if aim == "scaling" and not space.workers:
        told = ", ".join((*space.numeric, *space.categorical))
        raise InputError("no factor counts workers, so there is no scaling to learn", hint=f"what varies is {told}")
    observed = _observed(space, X, y, seconds)
    wish = Aim(aim, tolerance=1e-12, matters=difference, trials=len(y) + trials, replicates=len(y) + trials,
               batch=trials, seed=seed)  # fmt: skip
    batch = next_batch(space, wish, observed)
    return _plan(space, aim, batch, {trial.row for trial in observed}, seconds is not None)


def _plan(space: Space, aim: str, batch: Batch, known: set[int], timed: bool) -> NextPlan:
    rows = tuple(
        NextRow(_at(space.frame, choice.row), choice.row in known, choice.why if timed else _untimed(choice.why),
                choice.expected_s if timed else None)
        for choice in batch.choices
    )  # fmt: skip
    told = [row.expected_s for row in rows if row.expected_s is not None]
    why = batch.why
    if batch.expected is not None and batch.uncertainty is not None:
        why += f"; after these {len(rows)} trials {batch.expected:.1%} can be expected"
    return NextPlan(aim, rows, why, batch.uncertainty, batch.expected, sum(told) if told else None)


def _untimed(why: str) -> str:
    return why.rpartition("; about ")[0] or why


def _at(frame: pd.DataFrame, row: int) -> dict[str, Level]:
    values = frame.iloc[row]
    return {str(name): float(v) if isinstance(v, int | float | np.number) else str(v) for name, v in values.items()}


def _candidates(X: pd.DataFrame, seed: int) -> pd.DataFrame:
    """What was measured, and combinations of the measured levels and of values between them."""
    levels = [_levels(X[name]) for name in X.columns]
    number = math.prod(map(len, levels))
    if number <= MOST:
        combined = pd.DataFrame(list(itertools.product(*levels)), columns=X.columns)
    else:
        rng = np.random.default_rng([seed, 5])
        combined = pd.DataFrame({name: [values[i] for i in rng.integers(len(values), size=MOST)]
                                 for name, values in zip(X.columns, levels, strict=True)})  # fmt: skip
    together = pd.concat([X, combined], ignore_index=True)
    for name in X.columns:
        if pd.api.types.is_numeric_dtype(X[name]):
            together[name] = together[name].astype(float)
    return together.drop_duplicates(ignore_index=True)


def _levels(values: pd.Series) -> list[Level]:
    if not pd.api.types.is_numeric_dtype(values):
        return [str(level) for level in dict.fromkeys(values)]
    measured = sorted({float(value) for value in values})
    whole = all(value.is_integer() for value in measured)
    between = spread_values(measured[0], measured[-1]) if len(measured) > 2 else []
    return sorted({*measured, *(value for value in between if not whole or value.is_integer())})


def _observed(space: Space, X: pd.DataFrame, y: pd.Series, seconds: pd.Series | None) -> list[Observed]:
    keys = {key: row for row, key in enumerate(_keys(space.frame))}
    count: dict[int, int] = {}
    observed = []
    took = np.ones(len(y)) if seconds is None else np.nan_to_num(seconds.to_numpy(float), nan=1.0)
    for key, time, cost in zip(_keys(X), y.to_numpy(float), took, strict=True):
        row = keys[key]
        observed.append(Observed(row, count.get(row, 0), math.log(time), max(float(cost), 1e-3), 0))
        count[row] = count.get(row, 0) + 1
    return observed


def _keys(frame: pd.DataFrame) -> list[tuple[Level, ...]]:
    columns = [frame[name].astype(float) if pd.api.types.is_numeric_dtype(frame[name]) else frame[name].astype(str)
               for name in frame.columns]  # fmt: skip
    return list(zip(*(column.tolist() for column in columns), strict=True))
