"""The load-imbalance regression: time from the number of workers and the load imbalance factor.

t = β0 + β1·N + β2·LIF (MMU thesis, chapter 3). The source fitted three coefficients to three points, where R² says
nothing (docs/sources.md, point 4): here at least five rows are asked for, and intervals use the degrees of
freedom that remain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pandas as pd

from steplab.core.errors import ModelError
from steplab.models.columns.roles import Names
from steplab.models.families.regression import Regression, Term


class LoadImbalance(Regression):
    """t = β0 + β1·N + β2·LIF; `workers` and `lif` name the columns."""

    ignores_columns: ClassVar[str] = "it reads the workers and the load imbalance only"
    array_options: ClassVar[Mapping[str, Any]] = {"workers": "x0", "lif": "x1"}

    def __init__(
        self, intrinsic: Names = (), categorical: Names = (), extrinsic: Names = (),
        workers: str = "workers", lif: str = "lif",
    ) -> None:  # fmt: skip
        super().__init__(intrinsic, categorical, extrinsic)
        self.workers, self.lif = workers, lif

    def _terms(self) -> list[Term]:
        for name in (self.workers, self.lif):
            if name not in self.roles_.numeric:
                hint = "give it a numeric role, or name another column with the options `workers` and `lif`"
                given = f"it got {len(self.roles_.numeric)} numeric ones (n_features = {len(self.roles_.columns)})"
                raise ModelError(f"the load-imbalance model needs column {name!r}; {given}", hint=hint)
        return [Term(), Term((self.workers,)), Term((self.lif,))]

    def _rows_needed(self, frame: pd.DataFrame) -> int:
        return 5


MODEL = LoadImbalance
