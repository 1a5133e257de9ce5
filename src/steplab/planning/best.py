"""The best configurations within limits, and the front of time against cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.core.errors import InputError, allowed
from steplab.core.units import energy, size
from steplab.core.units import seconds as shown
from steplab.models.base import PerformanceModel
from steplab.planning.candidates import Values, candidates, expect_near, left_out
from steplab.planning.counted_memory import COUNTED, counted_memory
from steplab.planning.estimate import Estimate, estimates, ratio
from steplab.planning.job import Job, require_step_time
from steplab.planning.machines import Prices
from steplab.planning.quantities import Limit, expect_names

Array = np.ndarray
AIMS = ("t_epoch", "t_iter", "cost", "energy")
ALIASES = {"memory": "memory_bytes", "energy_j": "energy"}
TIMES = ("t_iter", "t_epoch")


@dataclass(frozen=True)
class BestRow:
    """A configuration, what is predicted of it, and how it stands to the others."""

    at: dict[str, str | float]
    estimates: dict[str, Estimate]  # by the name of the quantity
    inside: bool
    tied: bool  # it cannot be told from the best
    pareto: bool  # no other is both faster and cheaper


@dataclass(frozen=True)
class BestPlan:
    """Configurations by what is to be least."""

    minimise: str
    rows: tuple[BestRow, ...]
    looked_at: int
    feasible: int
    why: str
    assumptions: tuple[str, ...]
    currency: str = ""

    @property
    def front(self) -> tuple[BestRow, ...]:
        """Those of which no other is both faster and cheaper, the fastest first."""
        return tuple(sorted((row for row in self.rows if row.pareto), key=lambda row: row.estimates["t_iter"].value))


def plan_best(
    model: PerformanceModel,
    given: Values,
    *,
    minimise: str = "t_epoch",
    within: Sequence[Limit] = (),
    job: Job | None = None,
    prices: Prices | None = None,
    also: Sequence[PerformanceModel] = (),
) -> BestPlan:
    """All configurations that keep the limits, the best first; what cannot be kept is one sentence."""
    require_step_time(model)
    if minimise not in AIMS:
        raise InputError(f"there is nothing to minimise called {minimise!r}", hint=allowed(AIMS))
    asked = candidates(model, given)
    frame = expect_near(model, asked)
    told = _quantities(model, frame, job, prices, also)
    counts = "memory_bytes" not in told and any(_quantity(limit.name) == "memory_bytes" for limit in within)
    if counts:
        told["memory_bytes"] = counted_memory(model, frame)
    if minimise not in told:
        raise InputError(f"{minimise} cannot be told", hint=_MISSING[minimise])
    names = [*frame.columns, *told, *(alias for alias, name in ALIASES.items() if name in told)]
    expect_names(within, names)
    kept = _feasible(frame, told, within)
    rows = _rows(model, frame, told, kept, minimise)
    currency = prices.currency if prices else ""
    why = _why(rows, minimise, currency, len(frame), int(kept.sum()))
    stated = () if job is None else job.assumptions(model)
    if "energy" in told and not any(other.target_ in ("energy_j", "energy") for other in also):
        stated += ("energy is what the price list says that nodes draw, times the time: estimated, not measured",)
    stated += (*((COUNTED,) if counts else ()), *left_out(model, asked, frame))
    return BestPlan(minimise, rows, len(frame), int(kept.sum()), why, stated, currency)


_MISSING = {
    "t_epoch": "give the samples of an epoch (--samples), and the batch size if it is no factor",
    "cost": "give a price list (--prices) and the samples of an epoch (--samples)",
    "energy": "give a price list with watts and --samples, or a model of energy_j (--also)",
    "t_iter": "the model must predict a step time",
}


def _quantities(
    model: PerformanceModel, frame: pd.DataFrame, job: Job | None, prices: Prices | None,
    also: Sequence[PerformanceModel],
) -> dict[str, list[Estimate]]:  # fmt: skip
    """What is known of each configuration, by its name."""
    told = {"t_iter": estimates(model, frame)}
    if job is not None:
        steps, workers = job.steps(model, frame), job.scale(model, frame)[0]
        told["t_epoch"] = [t.scaled(n, job.checkpoint_s) for t, n in zip(told["t_iter"], steps, strict=True)]
        if prices is not None:
            told |= _prices(model, frame, prices, workers, told["t_epoch"])
    for other in also:
        told[_quantity(other.target_)] = estimates(other, _known_to(other, frame))
    return told


def _quantity(name: str) -> str:
    return ALIASES.get(name, name)


def _prices(
    model: PerformanceModel, frame: pd.DataFrame, prices: Prices, workers: Array, epochs: Sequence[Estimate]
) -> dict[str, list[Estimate]]:
    hourly = prices.per_hour(model, frame, workers) / 3600
    told = {"cost": [epoch.scaled(float(price)) for epoch, price in zip(epochs, hourly, strict=True)]}
    if all(machine.watts for machine in prices.machines.values()):
        watts = prices.watts(model, frame, workers)
        told["energy"] = [epoch.scaled(float(watt)) for epoch, watt in zip(epochs, watts, strict=True)]
    return told


def _known_to(other: PerformanceModel, frame: pd.DataFrame) -> pd.DataFrame:
    """The factors that a further model reads; one that never varied there is as it was."""
    constant: dict[str, float | str] = {c: low for c, (low, high) in other.range_.items() if low == high}
    constant |= {c: levels[0] for c, levels in other.levels_.items() if len(levels) == 1}
    missing = [c for c in other.roles_.columns if c not in frame.columns and c not in constant]
    if missing:
        what = f"the model of {other.target_} needs {', '.join(missing)}, which the model of the time does not have"
        raise InputError(what, hint="fit both to the same factors")
    return frame.assign(**{c: value for c, value in constant.items() if c not in frame.columns})


def _values(frame: pd.DataFrame, told: Mapping[str, list[Estimate]], name: str) -> Array:
    if name in frame.columns:
        return frame[name].to_numpy()
    return np.array([estimate.value for estimate in told[_quantity(name)]])


def _feasible(frame: pd.DataFrame, told: Mapping[str, list[Estimate]], within: Sequence[Limit]) -> Array:
    """Which configurations keep all limits; if none does, which limit stands in the way and what is possible."""
    masks = [limit.kept(_values(frame, told, limit.name)) for limit in within]
    kept = np.logical_and.reduce(masks) if masks else np.ones(len(frame), bool)
    if kept.any():
        return np.asarray(kept)
    for at, limit in enumerate(within):
        others = [mask for number, mask in enumerate(masks) if number != at]
        rest = np.logical_and.reduce(others) if others else np.ones(len(frame), bool)
        if rest.any():
            raise InputError(_in_the_way(limit, _values(frame, told, limit.name)[rest], within), where="within",
                             hint="loosen it, or let other factors vary")  # fmt: skip
    alone = [_in_the_way(limit, _values(frame, told, limit.name), [limit])
             for limit, mask in zip(within, masks, strict=True) if not mask.any()]  # fmt: skip
    together = " and ".join(limit.text for limit in within)
    what = "; ".join(alone) or f"no configuration keeps {together}, nor all of them but one"
    raise InputError(what, where="within", hint="drop or loosen limits one by one to see what is possible")


def _in_the_way(limit: Limit, values: Array, within: Sequence[Limit]) -> str:
    others = ", ".join(other.text for other in within if other is not limit)
    scope = f"of those that keep {others}, " if others else ""
    if isinstance(limit.value, str):
        seen = ", ".join(sorted(set(map(str, values))))
        return f"nothing keeps {limit.text}: {scope}{limit.name} is {seen}"
    nearest = float(values[np.argmin(limit.shortfall(values))])
    return f"nothing keeps {limit.text}: {scope}the nearest possible {limit.name} is {written(limit.name, nearest)}"


def written(name: str, value: float, currency: str = "") -> str:
    """A quantity with its unit; cost in the currency of the prices, if they have one."""
    units = dict.fromkeys(TIMES, shown) | {"memory_bytes": size, "energy": energy}
    unit = units.get(_quantity(name))
    return unit(value) if unit else f"{value:.4g} {currency if name == 'cost' else ''}".rstrip()


def _rows(
    model: PerformanceModel, frame: pd.DataFrame, told: Mapping[str, list[Estimate]], kept: Array, minimise: str
) -> tuple[BestRow, ...]:
    numbers = np.flatnonzero(kept)
    value = _values(frame, told, minimise)
    order = numbers[np.argsort(value[numbers], kind="stable")]
    front = _front(told, order)
    inside, at = model.inside(frame).rows, frame.to_dict("records")
    best = told[minimise][int(order[0])]
    return tuple(
        BestRow(
            {str(name): level for name, level in at[i].items()}, {name: column[i] for name, column in told.items()},
            bool(inside[i]), tied=bool(i == order[0] or _tied(told[minimise][i], best)), pareto=i in front,
        )
        for i in map(int, order)
    )  # fmt: skip


def _tied(row: Estimate, best: Estimate) -> bool:
    """Whether a measurement of the row may well be below one of the best."""
    if best.value <= 0 or row.value <= 0:
        return row.value == best.value
    return ratio(row, best).low <= 1.0


def _front(told: Mapping[str, list[Estimate]], order: Array) -> set[int]:
    """Those of which no other is both faster and cheaper; without prices there is no front."""
    if "cost" not in told:
        return set()
    name = "t_epoch" if "t_epoch" in told else "t_iter"
    rows = sorted((told[name][i].value, told["cost"][i].value, i) for i in map(int, order))
    front, cheapest = set(), np.inf
    for _, cost, number in rows:
        if cost < cheapest:
            front.add(number)
            cheapest = cost
    return front


def _why(rows: Sequence[BestRow], minimise: str, currency: str, looked_at: int, feasible: int) -> str:
    best, tied = rows[0].estimates[minimise], sum(row.tied for row in rows) - 1
    value = written(minimise, best.value, currency)
    doubt = f"{tied} more cannot be told from it" if tied else "no other comes near it"
    left = "" if feasible == looked_at else f", {looked_at - feasible} of {looked_at} break a limit"
    return f"the least {minimise} is {value}; {doubt}{left}"
