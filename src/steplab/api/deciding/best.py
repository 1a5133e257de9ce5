"""The best configurations within limits."""

from __future__ import annotations

from collections.abc import Sequence
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
    values,
)
from steplab.planning import best as planning
from steplab.planning.quantities import parse_limits

MOST_ROWS = 1000  # of a document


@dataclass(frozen=True, repr=False)
class BestAnswer(JobAnswer[planning.BestPlan]):
    """Configurations that keep the limits, the best first; `front` are those that are neither slower nor dearer."""

    @property
    def front(self) -> tuple[planning.BestRow, ...]:
        """The Pareto front of time against cost."""
        return self.plan.front

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of a table."""
        first = self.plan.minimise
        titles = {"cost": f"cost {self.plan.currency}".strip()}
        others = [titles.get(name, name) for name in self.plan.rows[0].estimates if name != first]
        front = ("front",) if self.front else ()
        return ("configuration", titles.get(first, first), "90 %", *others, "range", "tied", *front)

    @property
    def cells(self) -> list[list[str]]:
        """The rows of a table of `columns`."""
        first = self.plan.minimise
        cells = []
        for row in self.plan.rows:
            least = row.estimates[first]
            best = [
                planning.written(first, least.value),
                f"{planning.written(first, least.low)}–{planning.written(first, least.high)}",
            ]
            others = [planning.written(name, value.value) for name, value in row.estimates.items() if name != first]
            marks = ["inside" if row.inside else "OUTSIDE", "tied" if row.tied else ""]
            cells.append([described(row.at), *best, *others, *marks, *(["*" if row.pareto else ""] * bool(self.front))])
        return cells

    def document(self) -> dict[str, Any]:
        """What `steplab plan best --json` prints."""
        plan = asdict(self.plan)
        rows = [row | row.pop("estimates") for row in plan.pop("rows")[:MOST_ROWS]]
        front = [row for row in rows if row["pareto"]]
        return {"rows": rows, "front": front, "why": plan.pop("why"), **plan}

    def __repr__(self) -> str:
        return f"<BestAnswer {described(self.plan.rows[0].at)}: {self.why}>"


def plan_best(
    model: ModelLike,
    *,
    minimise: str = "",
    fix: Fixed = "",
    vary: Varied = "",
    within: str = "",
    samples: int | None = None,
    validation_samples: int = 0,
    checkpoint: str | float = 0.0,
    batch_size: float | None = None,
    prices: Path | str | None = None,
    machine: str = "",
    also: Sequence[ModelLike] = (),
) -> BestAnswer:
    """The best configurations that keep limits, with intervals, and the Pareto front of time against cost.

    Args:
        model: A fitted model of a step time, or its file.
        minimise: `t_iter`, `t_epoch`, `cost` or `energy`; by default `t_epoch` if the samples are given, else `t_iter`.
        fix: Values of factors that are given.
        vary: Values to look at, such as `"workers=1..16,batch_size=32|64"`; by default what was measured.
        within: Limits on factors and on what is predicted: `"memory<8GB,workers<=8"`.
        samples: Samples of an epoch, for `t_epoch`, `cost` and `energy`.
        validation_samples: Samples that are passed forward after each epoch.
        checkpoint: The time that a checkpoint takes after each epoch.
        batch_size: Samples of each worker in an iteration, where the model has no factor for it.
        prices: A price list (TOML), for `cost` and `energy`.
        machine: Which machine of the price list.
        also: Models of further quantities, such as `memory_bytes`, for limits on them.
    """
    job = job_of(samples, 1, validation_samples, 0.0, checkpoint, batch_size)
    aim = minimise or ("t_iter" if samples is None else "t_epoch")
    plan = planning.plan_best(
        estimator(model), values(fix, vary), minimise=aim, within=parse_limits(within), job=job,
        prices=read_prices(prices, machine), also=[estimator(other) for other in also],
    )  # fmt: skip
    return BestAnswer(plan)
