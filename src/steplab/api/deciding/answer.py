"""What answers about a whole job have in common: a plan of configurations, its sentence and its table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

import pandas as pd

from steplab.api import display

SHOWN = 20


class JobPlan(Protocol):
    """Configurations, the best first, and why."""

    @property
    def rows(self) -> tuple[Any, ...]:
        """The configurations."""

    @property
    def why(self) -> str:
        """The answer in a sentence."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed."""


P = TypeVar("P", bound=JobPlan)


@dataclass(frozen=True, repr=False)
class JobAnswer(ABC, Generic[P]):
    """A plan, as a person and a notebook see it."""

    plan: P

    @property
    def why(self) -> str:
        """The answer in a sentence."""
        return self.plan.why

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed from a step to the job."""
        return self.plan.assumptions

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each configuration."""
        return pd.json_normalize([asdict(row) for row in self.plan.rows])

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The titles of a table."""

    @property
    @abstractmethod
    def cells(self) -> list[list[str]]:
        """The rows of a table of `columns`."""

    def _repr_html_(self) -> str:
        return display.block(
            display.sentence(self.why), display.table(self.columns, self.cells[:SHOWN]),
            display.rest(len(self.cells) - SHOWN), *(display.sentence(f"Assumed: {t}.") for t in self.assumptions),
        )  # fmt: skip
