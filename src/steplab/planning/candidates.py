"""Which configurations a plan looks at: measured levels and ranges of a model, fixed or varied as the user says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError, nearest
from steplab.models.base import PerformanceModel
from steplab.models.columns.roles import features
from steplab.planning.chance import FARTHEST, WIDEST, half_width, useful

MOST = 100_000
LONGEST = 32  # letters of a range
SHOWN = 6  # values in a sentence
STEPS = 9  # values of a numeric factor whose range has no powers of two
Values = Mapping[str, Sequence[str]]


def parse_values(text: str) -> dict[str, list[str]]:
    """Several values for some factors: a list, or whole numbers from one to another.

    >>> parse_values("workers=1..4, batch_size=32|64")
    {'workers': ['1', '2', '3', '4'], 'batch_size': ['32', '64']}
    """
    values: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, written = (piece.strip() for piece in part.partition("="))
        if not (name and sign and written) or name in values:
            hint = 'write each factor once: "workers=1..8,batch_size=32|64"'
            raise ModelError(f"{part!r} does not give a factor's values", hint=hint)
        values[name] = [value for word in written.split("|") for value in _expanded(word.strip(), name)]
    return values


def _expanded(word: str, name: str) -> list[str]:
    first, dots, last = word.partition("..")
    if not dots:
        return [word]
    if not (first.isdecimal() and last.isdecimal() and len(word) < LONGEST and int(first) <= int(last)):
        raise ModelError(f"{name}={word} is no range of whole numbers", hint="write 1..8")
    if int(last) - int(first) >= MOST:
        raise ModelError(f"{name}={word} has more than {MOST:,} values", hint="name some of them: 1|2|4|8")
    return [str(number) for number in range(int(first), int(last) + 1)]


def candidates(model: PerformanceModel, given: Values) -> pd.DataFrame:
    """All combinations: of the given values, elsewhere of the measured levels and of values inside the range."""
    columns = model.roles_.columns
    for name in given:
        if name not in columns:
            raise ModelError(f"the model has no factor {name!r}", hint=nearest(name, columns))
    chosen = [list(given[name]) if name in given else _own_values(model, name) for name in columns]
    number = math.prod(map(len, chosen))
    if number > MOST:
        widest = max(zip(columns, chosen, strict=True), key=lambda pair: len(pair[1]))[0]
        what = f"there are {number:,} combinations of {', '.join(columns)}"
        raise ModelError(what, hint=f"fix some factors, {widest} first; up to {MOST:,} are looked at")
    rows = pd.DataFrame(list(itertools.product(*chosen)), columns=list(columns))
    return features(rows, model.roles_)


def _own_values(model: PerformanceModel, name: str) -> list[str]:
    if name in model.levels_:
        return list(model.levels_[name])
    return [repr(value) for value in spread_values(*model.range_[name])]


def spread_values(low: float, high: float) -> list[float]:
    """Values to look at in a range: its ends, and the powers of two between whole ones; else evenly spaced.

    >>> spread_values(1.0, 12.0), spread_values(3.0, 3.0)
    ([1.0, 2.0, 4.0, 8.0, 12.0], [3.0])
    """
    if low == high:
        return [low]
    if low.is_integer() and high.is_integer() and low >= 1 and high / low >= 2:
        first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
        return sorted({low, high, *(2.0**power for power in range(first, last + 1))})
    space = np.geomspace if low > 0 else np.linspace
    return [float(value) for value in np.unique(space(low, high, STEPS).round(12))]


def left_out(model: PerformanceModel, asked: pd.DataFrame, kept: pd.DataFrame) -> tuple[str, ...]:
    """What was asked about and cannot be planned with, in a sentence; nothing if all can."""
    number = len(asked) - len(kept)
    if not number:
        return ()
    beyond = [name for name in model.range_ if set(asked[name]) - set(kept[name])]
    what = " and ".join(f"{name} {_listed(set(asked[name]) - set(kept[name]))}" for name in beyond)
    where = f", with {what} all of them" if beyond else ""
    reason = "no interval that is narrow enough to plan with can be given for them"
    return (f"{number} of {len(asked)} configurations are left out{where}: {reason}",)


def _listed(values: set[float]) -> str:
    ordered = [f"{value:g}" for value in sorted(values)]
    return ", ".join(ordered if len(ordered) <= SHOWN else [*ordered[: SHOWN - 1], f"… {ordered[-1]}"])


def expect_near(model: PerformanceModel, frame: pd.DataFrame) -> pd.DataFrame:
    """The configurations that can be planned with; if none can, which factor is too far out, and how far is possible.

    A plan needs an interval; far outside of what was measured there is none, or one that tells nothing.
    """
    near = useful(model, frame)
    if near.any():
        return frame[near].reset_index(drop=True)
    outside = model.inside(frame).outside
    if not any(outside):
        what = f"the model's intervals are wider than a factor of {WIDEST:g} even where it was measured"
        raise ModelError(what, hint="measure more replicates, on a quieter machine, before you plan with it")
    names = list(dict.fromkeys(name for row in outside for name in row)) or list(model.range_)
    measured = "; ".join(f"{name} was measured from {model.range_[name][0]:g} to {model.range_[name][1]:g}"
                         for name in names if name in model.range_)  # fmt: skip
    what = f"this lies too far outside of what was measured to plan with ({measured})"
    if not np.isfinite(half_width(model, frame)).any():
        what = f"no interval can be given for this, and a plan needs one ({measured})"
        raise ModelError(what, hint="measure three values or more of what you ask beyond, four for a better interval")
    possible = f"within {FARTHEST:g} times of that, where the interval is within a factor of {WIDEST:g}"
    raise ModelError(what, hint=f"ask {possible}, or measure nearer to what you ask")
