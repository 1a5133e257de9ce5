"""How many workers are worth it: speed-up and efficiency against workers, and where one more stops paying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.core.errors import InputError, ModelError
from steplab.models.base import PerformanceModel
from steplab.planning.candidates import candidates, expect_near, spread_values
from steplab.planning.chance import half_width
from steplab.planning.estimate import Estimate, estimates, ratio
from steplab.planning.job import parts_of, require_step_time
from steplab.planning.machines import Prices

Array = np.ndarray
Pays = Callable[[Array], Array]  # from throughputs to whether each step to the next number of workers pays
WORTH = 0.5  # what a further worker must bring, as a share of what the first ones bring each
EACH_UP_TO = 16  # workers of which every number is looked at
MILLION = 1e6


@dataclass(frozen=True)
class WorkersRow:
    """A number of workers: its step time, and its throughput against the fewest."""

    workers: int
    t_iter: Estimate
    speedup: float
    speedup_low: float
    speedup_high: float
    efficiency: float
    inside: bool
    cost: float | None = None  # of a million samples


@dataclass(frozen=True)
class WorkersPlan:
    """Rows by workers; `enough` is the last number that pays, and with 90 % it lies from `enough_low` to `_high`."""

    at: dict[str, str | float]
    rows: tuple[WorkersRow, ...]
    enough: int
    enough_low: int
    enough_high: int
    why: str
    currency: str = ""


def plan_workers(
    model: PerformanceModel,
    fixed: dict[str, str],
    counts: Sequence[int] = (),
    *,
    worth: float = WORTH,
    prices: Prices | None = None,
    hour_worth: float | None = None,
) -> WorkersPlan:
    """Speed-up and efficiency of a configuration at several numbers of workers, and how many are enough.

    A step to more workers pays while each of them brings at least `worth` of what each of the fewest brings. With
    prices and what an hour is worth, it pays while the money it costs is less than the time it saves is worth.
    """
    require_step_time(model)
    frame, column, far = _frame(model, fixed, counts)
    shared = parts_of(model).shared
    workers = frame[column].to_numpy(float)
    times, inside = estimates(model, frame), model.inside(frame).rows
    speedups = [_speedup(times[0], time, workers[0], count, shared) for time, count in zip(times, workers, strict=True)]
    costs = None if prices is None else _costs(model, frame, workers, prices, shared)
    pays = _by_efficiency(workers, worth)
    if hour_worth is not None:
        pays = _by_money(model, frame, workers, prices, hour_worth)
    rates = _rates(model, frame, workers, shared)
    ends = [_enough(workers, pays(rates * np.exp(-side * _slope(model, frame, workers)))) for side in (1, -1)]
    enough = _enough(workers, pays(rates))
    rows = tuple(
        WorkersRow(int(n), t, s.value, s.low, s.high, s.value * workers[0] / n, bool(i), None if costs is None else c)
        for n, t, s, i, c in zip(workers, times, speedups, inside, costs if costs is not None else rates, strict=True)
    )
    at = {str(name): frame[name].iloc[0] for name in frame.columns if name != column}
    low, high = min(*ends, enough), max(*ends, enough)
    rule = f"one more pays while it brings {worth:.0%} of what each of the fewest does"
    if hour_worth is not None:
        rule = f"an hour is worth {hour_worth:g}"
    why = _why(rows, enough, (low, high), rule, money=hour_worth is not None) + far
    return WorkersPlan(at, rows, enough, low, high, why, prices.currency if prices else "")


def _frame(model: PerformanceModel, fixed: dict[str, str], counts: Sequence[int]) -> tuple[pd.DataFrame, str, str]:
    """The configurations to look at, the column of the workers, and words on those that were asked for in vain."""
    column = parts_of(model).workers
    if not column:
        what = "the model has no factor that counts workers"
        raise ModelError(what, hint=f"it has {', '.join(model.roles_.columns)}; fit one to trials of several workers")
    if column in fixed:
        raise InputError(f"{column} is fixed, but it is what this plan varies", hint="leave it out of what is fixed")
    if any(count < 1 for count in counts):
        raise InputError("there are no workers to plan with", hint="give numbers of 1 and more")
    _expect_all_given(model, fixed, column)
    wanted = sorted(set(counts)) or _numbers(*model.range_[column])
    frame = candidates(model, {name: [value] for name, value in fixed.items()} | {column: list(map(str, wanted))})
    frame = expect_near(model, frame)
    if len(frame) < 2:
        what = "one number of workers alone has no speed-up"
        raise InputError(what, hint=f"ask for several; {column} was measured at {_span(model, column)}")
    known = set(frame[column].astype(int))
    far = [count for count in wanted if count not in known]
    measured = f"{column} was measured at {_span(model, column)}"
    told = f"; not planned with: {_listed(far)}, too far outside ({measured})" if far else ""
    return frame, column, told


def _listed(counts: Sequence[int]) -> str:
    """Some numbers of workers, the first and the last of many."""
    return ", ".join(map(str, counts)) if len(counts) < 4 else f"{counts[0]} to {counts[-1]}"


def _span(model: PerformanceModel, column: str) -> str:
    low, high = model.range_[column]
    return f"{low:g} only" if low == high else f"{low:g} to {high:g}"


def _expect_all_given(model: PerformanceModel, fixed: dict[str, str], column: str) -> None:
    free = [c for c, levels in model.levels_.items() if len(levels) > 1 and c not in fixed]
    free += [c for c, (low, high) in model.range_.items() if low < high and c not in (*fixed, column)]
    if free:
        raise InputError(
            f"{', '.join(free)} must be fixed", hint='e.g. --fix "' + ",".join(f"{c}=…" for c in free) + '"'
        )


def _numbers(low: float, high: float) -> list[int]:
    return list(range(int(low), int(high) + 1)) if high <= EACH_UP_TO else [int(n) for n in spread_values(low, high)]


def _speedup(first: Estimate, now: Estimate, fewest: float, count: float, shared: bool) -> Estimate:
    """Throughput against that of the fewest workers; these themselves have no doubt."""
    if first is now:
        return Estimate(1.0, 1.0, 1.0)
    return ratio(first, now, 1.0 if shared else count / fewest)


def _rates(model: PerformanceModel, frame: pd.DataFrame, workers: Array, shared: bool) -> Array:
    """Samples a second, in units of one worker's batch."""
    return np.asarray((1.0 if shared else workers) / model.predict(frame))


def _slope(model: PerformanceModel, frame: pd.DataFrame, workers: Array) -> Array:
    """How much slower each number of workers may be than predicted, relative to the fewest, in logarithms.

    The doubt grows from nothing at the fewest to the whole interval at the most: it is the scaling that is in doubt,
    not each number of workers for itself.
    """
    share = np.log(workers / workers[0]) / np.log(workers[-1] / workers[0])
    return np.asarray(half_width(model, frame) * share)


def _by_efficiency(workers: Array, worth: float) -> Pays:
    if not 0 < worth < 1:
        raise InputError(f"worth is {worth:g}", hint="allowed: a share between 0 and 1, such as 0.5")

    def pays(rates: Array) -> Array:
        gained = np.diff(rates / rates[0]) / np.diff(workers / workers[0])
        return np.asarray(gained >= worth)

    return pays


def _by_money(
    model: PerformanceModel, frame: pd.DataFrame, workers: Array, prices: Prices | None, worth: float
) -> Pays:
    if prices is None:
        raise InputError("what an hour is worth needs prices to compare with", hint="give a price list (--prices)")
    if not worth > 0:
        raise InputError(f"an hour is worth {worth:g}", hint="allowed: more than 0, in the currency of the prices")
    hourly = prices.per_hour(model, frame, workers)

    def pays(rates: Array) -> Array:
        hours = 1 / rates
        return np.asarray(np.diff(hourly * hours) <= worth * -np.diff(hours))

    return pays


def _costs(model: PerformanceModel, frame: pd.DataFrame, workers: Array, prices: Prices, shared: bool) -> Array:
    """Money for a million samples at each number of workers; NaN where the batch is unknown."""
    batch = parts_of(model).batch
    if not batch:
        return np.full(len(frame), np.nan)
    samples = frame[batch].to_numpy(float) * (1.0 if shared else workers)
    hours = MILLION / samples * model.predict(frame) / 3600
    return np.asarray(prices.per_hour(model, frame, workers) * hours)


def _enough(workers: Array, pays: Array) -> int:
    """The last number of workers before a step that does not pay."""
    stops = np.flatnonzero(~pays)
    return int(workers[stops[0] if len(stops) else -1])


def _why(rows: Sequence[WorkersRow], enough: int, ends: tuple[int, int], rule: str, *, money: bool) -> str:
    last = rows[-1].workers
    at = next(row for row in rows if row.workers == enough)
    told = f"speed-up {at.speedup:.3g}, efficiency {at.efficiency:.0%}"
    doubt = "" if ends == (enough, enough) else f"; with 90 % the answer lies from {ends[0]} to {ends[1]}"
    if enough == last:
        return f"{enough} workers still pay, the most that was looked at ({told}; {rule}){doubt}"
    following = next(row.workers for row in rows if row.workers > enough)
    reason = "cost more than the time they save" if money else "bring too little each"
    workers = "1 worker is" if enough == 1 else f"{enough} workers are"
    return f"{workers} enough ({told}): those up to {following} {reason} ({rule}){doubt}"
