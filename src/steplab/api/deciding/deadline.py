"""What meets a deadline, with which probability."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steplab.api.deciding.answer import JobAnswer
from steplab.api.deciding.given import (
    Fixed,
    ModelLike,
    Varied,
    described,
    estimator,
    job_of,
    read_prices,
    seconds_of,
    values,
)
from steplab.core.units import seconds as shown
from steplab.core.units import span
from steplab.planning import deadline as planning


@dataclass(frozen=True, repr=False)
class DeadlineAnswer(JobAnswer[planning.DeadlinePlan]):
    """Configurations with the probability that the job ends in time; those that surely do come first."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of a table."""
        cost = (f"cost {self.plan.currency}".strip(),) if self.plan.rows[0].cost is not None else ()
        return ("configuration", "in time", "job", "90 %", "range", *cost)

    @property
    def cells(self) -> list[list[str]]:
        """The rows of a table of `columns`."""
        return [
            [described(row.at), f"{row.probability:.1%}", shown(row.total_s.value),
             span(row.total_s.low, row.total_s.high),
             "inside" if row.inside else "OUTSIDE", *([] if row.cost is None else [f"{row.cost:.4g}"])]
            for row in self.plan.rows
        ]  # fmt: skip

    def document(self) -> dict[str, Any]:
        """What `steplab plan deadline --json` prints."""
        plan = asdict(self.plan)
        return {"rows": plan.pop("rows"), "why": plan.pop("why"), **plan}

    def __repr__(self) -> str:
        return f"<DeadlineAnswer {self.why}>"


def plan_deadline(
    model: ModelLike,
    samples: int,
    by: str | float,
    *,
    epochs: int = 1,
    fix: Fixed = "",
    vary: Varied = "",
    confidence: float = planning.CONFIDENCE,
    validation_samples: int = 0,
    startup: str | float = 0.0,
    checkpoint: str | float = 0.0,
    batch_size: float | None = None,
    prices: Path | str | None = None,
    machine: str = "",
) -> DeadlineAnswer:
    """What meets a deadline, and with which probability.

    Args:
        model: A fitted model of a step time, or its file.
        samples: Samples of an epoch.
        by: The time that the whole job may take: `"24h"`, or seconds.
        epochs: How many epochs.
        fix: Values of factors that are given.
        vary: Values to look at, such as `"workers=1..16"`; by default what was measured.
        confidence: The probability with which a configuration is to be in time.
        validation_samples: Samples that are passed forward after each epoch.
        startup: The time before the first step.
        checkpoint: The time that a checkpoint takes after each epoch.
        batch_size: Samples of each worker in an iteration, where the model has no factor for it.
        prices: A price list (TOML); then the cheapest comes first.
        machine: Which machine of the price list.
    """
    job = job_of(samples, epochs, validation_samples, startup, checkpoint, batch_size)
    assert job is not None
    plan = planning.plan_deadline(
        estimator(model), job, seconds_of(by, "by"), values(fix, vary), confidence=confidence,
        prices=read_prices(prices, machine),
    )  # fmt: skip
    return DeadlineAnswer(plan)
