"""How many workers are worth it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from steplab.api import display
from steplab.api.deciding.given import Fixed, ModelLike, described, estimator, fixed_values, read_prices
from steplab.core.errors import InputError
from steplab.core.units import seconds as shown
from steplab.core.units import span
from steplab.planning import workers as planning
from steplab.planning.candidates import parse_values

COLUMNS = ("workers", "step", "90 %", "speed-up", "90 %", "efficiency", "range")


@dataclass(frozen=True, repr=False)
class WorkersAnswer:
    """Speed-up and efficiency by workers; `enough` is the last number that pays, `why` says so in words."""

    plan: planning.WorkersPlan

    @property
    def enough(self) -> int:
        """The last number of workers that pays."""
        return self.plan.enough

    @property
    def why(self) -> str:
        """The answer in a sentence."""
        return self.plan.why

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each number of workers."""
        return pd.json_normalize([asdict(row) for row in self.plan.rows])

    @property
    def columns(self) -> tuple[str, ...]:
        """The titles of a table."""
        return (*COLUMNS, f"{self.plan.currency or 'cost'}/million") if self._priced else COLUMNS

    @property
    def _priced(self) -> bool:
        return any(row.cost is not None for row in self.plan.rows)

    @property
    def cells(self) -> list[list[str]]:
        """The rows of a table of `columns`."""
        cells = []
        for row in self.plan.rows:
            t, between = row.t_iter, f"{row.speedup_low:.3g}–{row.speedup_high:.3g}"
            cell = [str(row.workers), shown(t.value), span(t.low, t.high), f"{row.speedup:.3g}", between,
                    f"{row.efficiency:.0%}", "inside" if row.inside else "OUTSIDE"]  # fmt: skip
            cells.append([*cell, f"{row.cost:.3g}"] if row.cost is not None else cell)
        return cells

    def document(self) -> dict[str, Any]:
        """What `steplab plan workers --json` prints."""
        plan = self.plan
        ends = {"enough_low": plan.enough_low, "enough_high": plan.enough_high}
        rows = [asdict(row) for row in plan.rows]
        return {"at": plan.at, "rows": rows, "enough": plan.enough, **ends, "why": plan.why, "currency": plan.currency}

    def __repr__(self) -> str:
        return f"<WorkersAnswer {described(self.plan.at)}: {self.why}>"

    def _repr_html_(self) -> str:
        return display.block(display.sentence(self.why), display.table(self.columns, self.cells))


def plan_workers(
    model: ModelLike,
    fix: Fixed = "",
    workers: Sequence[int] | str = (),
    *,
    worth: float = planning.WORTH,
    prices: Path | str | None = None,
    machine: str = "",
    hour_worth: float | None = None,
) -> WorkersAnswer:
    """How many workers are worth it: speed-up, efficiency, and where one more stops paying.

    Args:
        model: A fitted model of a step time, or its file.
        fix: The values of all factors but workers.
        workers: Numbers to look at, such as `[1, 2, 4]` or `"1..8"`; by default the measured range.
        worth: A step to more workers pays while each brings this share of what each of the fewest brings.
        prices: A price list (TOML); then each row has a cost.
        machine: Which machine of the price list.
        hour_worth: What an hour is worth, in the currency of the prices: then money decides.
    """
    counts = _counts(workers) if isinstance(workers, str) else [int(count) for count in workers]
    fixed, listed = fixed_values(fix), read_prices(prices, machine)
    plan = planning.plan_workers(
        estimator(model), fixed, counts, worth=worth, prices=listed, hour_worth=hour_worth
    )  # fmt: skip
    return WorkersAnswer(plan)


def _counts(text: str) -> list[int]:
    if not text.strip():
        return []
    written = parse_values(f"workers={text}")["workers"]
    if not all(count.isdecimal() and len(count) < 16 for count in written):
        raise InputError(f"{text!r} are no numbers of workers", hint="write 1..8 or 1|2|4|8")
    return [int(count) for count in written]
