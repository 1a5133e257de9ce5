"""What to measure next, from what was measured so far."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from steplab.api import display
from steplab.api.deciding.given import described
from steplab.api.modelling.rows import Columns, RowSource, training_rows
from steplab.core.units import seconds as shown
from steplab.planning import next_trials as planning


@dataclass(frozen=True, repr=False)
class NextAnswer:
    """Trials to add, each with what it tells and how long it may take."""

    plan: planning.NextPlan
    notes: tuple[str, ...] = ()  # what was assumed about the rows

    @property
    def why(self) -> str:
        """Where the study stands, in a sentence."""
        return self.plan.why

    @property
    def minutes(self) -> float | None:
        """What the trials may take together; None where the source does not say how long trials took."""
        return None if self.plan.expected_s is None else self.plan.expected_s / 60

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each trial."""
        return pd.json_normalize([asdict(row) for row in self.plan.rows])

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of a table."""
        return ("configuration", "", "why", "takes about")

    @property
    def cells(self) -> list[list[str]]:
        """The rows of a table of `columns`."""
        return [
            [described(row.at), "again" if row.again else "new", row.why.rpartition("; about ")[0] or row.why,
             "-" if row.expected_s is None else shown(row.expected_s)]
            for row in self.plan.rows
        ]  # fmt: skip

    def document(self) -> dict[str, Any]:
        """What `steplab plan next --json` prints."""
        plan = asdict(self.plan)
        return {"rows": plan.pop("rows"), "why": plan.pop("why"), **plan, "minutes": self.minutes, "notes": self.notes}

    def __repr__(self) -> str:
        return f"<NextAnswer {len(self.plan.rows)} trials: {self.why}>"

    def _repr_html_(self) -> str:
        return display.block(display.sentence(self.why), display.table(self.columns, self.cells, left=3))


def plan_next(
    source: RowSource,
    *,
    aim: str = "predict",
    trials: int = 4,
    target: str | None = None,
    difference: float = 0.05,
    intrinsic: Columns = (),
    categorical: Columns = (),
    extrinsic: Columns = (),
    seed: int = 1,
) -> NextAnswer:
    """Which trials to add to a study or a table, why, what they are expected to tell and to take.

    Args:
        source: A study (`steplab.open`), its folder, a CSV or Parquet file, or a pandas table.
        aim: `predict`, `best`, `scaling` or `compare`.
        trials: How many.
        target: The column of the time, by default `t_iter`; of `best` the time of a sample where `throughput` is known.
        difference: For `compare`, the relative difference that is to be seen.
        intrinsic: Columns of the network and the training.
        categorical: Columns that hold levels.
        extrinsic: Columns of the scale. Without any of the three, names and types of the columns decide.
        seed: Of what is left to chance.
    """
    chosen = training_rows(source, target, intrinsic, categorical, extrinsic)
    y = chosen.y
    if aim == "best" and target is None and "throughput" in chosen.X and "throughput" not in chosen.roles.columns:
        y = 1 / chosen.X["throughput"]  # a short step of few samples is no gain
    took = chosen.X["seconds"] if "seconds" in chosen.X and "seconds" not in chosen.roles.columns else None
    plan = planning.plan_next(
        chosen.X[list(chosen.roles.columns)], y, took, aim=aim, trials=trials, difference=difference, seed=seed
    )
    return NextAnswer(plan, chosen.notes)
