"""What meets a deadline, and with which probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.core.errors import InputError
from steplab.core.units import seconds as shown
from steplab.models.base import PerformanceModel
from steplab.planning.candidates import Values, candidates, expect_near, left_out
from steplab.planning.chance import SUREST, chance_below, quantiles
from steplab.planning.estimate import Estimate, estimates
from steplab.planning.job import Job, require_step_time
from steplab.planning.machines import Prices
from steplab.planning.quantities import expect_positive

Array = np.ndarray
CONFIDENCE = 0.9


@dataclass(frozen=True)
class DeadlineRow:
    """A configuration, how long the job takes in it, and the probability that it ends in time."""

    at: dict[str, str | float]
    probability: float
    total_s: Estimate
    workers: float
    inside: bool
    cost: float | None = None


@dataclass(frozen=True)
class DeadlinePlan:
    """Configurations that meet the deadline first, those with the fewest workers or least cost before others."""

    by_s: float
    confidence: float
    rows: tuple[DeadlineRow, ...]
    why: str
    assumptions: tuple[str, ...]
    currency: str = ""


def plan_deadline(
    model: PerformanceModel, job: Job, by_s: float, given: Values, *, confidence: float = CONFIDENCE,
    prices: Prices | None = None,
) -> DeadlinePlan:  # fmt: skip
    """What meets a deadline, by the model's intervals; those that surely do, the cheapest first."""
    require_step_time(model)
    expect_positive(by_s, "the deadline in seconds", "give a time such as 24h")
    if not 0 < confidence <= SUREST:
        hint = f"allowed: a probability such as 0.9, up to {SUREST:g}: nothing is promised more surely than that"
        raise InputError(f"confidence is {confidence:g}", hint=hint)
    asked = candidates(model, given)
    frame = expect_near(model, asked)
    steps, fixed = job.steps(model, frame), job.fixed_s()
    if by_s <= fixed:
        what = f"start-up and checkpoints alone take {shown(fixed)}, more than the deadline of {shown(by_s)}"
        raise InputError(what, hint="allow more time, or fewer checkpoints")
    chances = chance_below(model, frame, (by_s - fixed) / (job.epochs * steps))
    rows = _rows(model, frame, job, steps, chances, prices)
    _refuse_hopeless(rows, by_s)
    ranked = _ranked(rows, confidence)
    why = _why(model, frame, job, steps, ranked, by_s, confidence)
    stated = (*job.assumptions(model), *left_out(model, asked, frame))
    return DeadlinePlan(by_s, confidence, tuple(ranked), why, stated, prices.currency if prices else "")


def _rows(
    model: PerformanceModel, frame: pd.DataFrame, job: Job, steps: Array, chances: Array, prices: Prices | None
) -> list[DeadlineRow]:
    workers, _ = job.scale(model, frame)
    totals = [t.scaled(job.epochs * n, job.fixed_s()) for t, n in zip(estimates(model, frame), steps, strict=True)]
    hourly = None if prices is None else prices.per_hour(model, frame, workers)
    inside, at = model.inside(frame).rows, frame.to_dict("records")
    return [
        DeadlineRow(
            {str(name): level for name, level in at[i].items()}, float(chances[i]), totals[i], float(workers[i]),
            bool(inside[i]), None if hourly is None else float(hourly[i] * totals[i].value / 3600),
        )
        for i in range(len(frame))
    ]  # fmt: skip


def _ranked(rows: Sequence[DeadlineRow], confidence: float) -> list[DeadlineRow]:
    """Those that are sure enough by what they take of others, then the others by their probability."""

    def key(row: DeadlineRow) -> tuple[float, ...]:
        if row.probability >= confidence:
            return (0.0, row.workers if row.cost is None else row.cost, row.total_s.value)
        return (1.0, -row.probability, row.total_s.value)

    return sorted(rows, key=key)


def _refuse_hopeless(rows: Sequence[DeadlineRow], by_s: float) -> None:
    if max(row.probability for row in rows) > 1 - SUREST:
        return
    soonest = min(rows, key=lambda row: row.total_s.value)
    what = f"nothing that was looked at ends within {shown(by_s)}"
    told = ", ".join(f"{name}={level:g}" if isinstance(level, float) else f"{name}={level}"
                     for name, level in soonest.at.items())  # fmt: skip
    ends = f"{shown(soonest.total_s.low)} to {shown(soonest.total_s.high)}"
    raise InputError(what, hint=f"the soonest is {shown(soonest.total_s.value)} ({ends}) with {told}")


def _why(
    model: PerformanceModel, frame: pd.DataFrame, job: Job, steps: Array, ranked: Sequence[DeadlineRow], by_s: float,
    confidence: float,
) -> str:  # fmt: skip
    sure, wish = [row for row in ranked if row.probability >= confidence], _percent(confidence)
    if sure:
        least = "cheapest" if sure[0].cost is not None else "one with the fewest workers"
        told = f"the {least} comes first and takes {shown(sure[0].total_s.value)}"
        return f"{len(sure)} of {len(ranked)} configurations end within {shown(by_s)} with {wish}; {told}"
    possible = shown(_possible(model, frame, job, steps, confidence))
    best = f"the likeliest does with {_percent(ranked[0].probability)}"
    return f"no configuration ends within {shown(by_s)} with {wish}: {best}; {possible} would be possible"


def _percent(probability: float) -> str:
    """Never 100 % of what is less sure."""
    return f"{100 * probability:.3g}%"


def _possible(model: PerformanceModel, frame: pd.DataFrame, job: Job, steps: Array, confidence: float) -> float:
    """The shortest deadline that one of the configurations meets with that probability."""
    at, logs = quantiles(model, frame)
    times = np.exp([np.interp(confidence, at, row) for row in logs])
    return float(np.min(job.total_s(times, steps)))
