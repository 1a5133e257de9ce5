"""The readable model with the least error on held-out rows, random and beyond the range, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError, SteplabError, allowed
from steplab.models import load_model_class, offered, provider, saved_model_class
from steplab.models.base import Array, Parameter, PerformanceModel, folds
from steplab.models.columns.roles import Names, names
from steplab.models.formulas.formula import Formula
from steplab.models.held_out.ranges import Split, upper_ranges

READABLE = offered("auto")
# Choosing needs fewer rows than fitting what was chosen.
MOST_ROWS = 400
RANDOM_FOLDS, MOST_RANGES = 3, 2


@dataclass(frozen=True)
class Candidate:
    """One candidate's held-out error in per cent: on random folds, on upper ranges, and both."""

    model: str
    random: float | None
    ranges: float | None
    reason: str = ""

    @property
    def error(self) -> float:
        """What is compared: the mean of both kinds of error."""
        known = [value for value in (self.random, self.ranges) if value is not None]
        return float(np.mean(known)) if known and not self.reason else np.inf


class Auto(PerformanceModel):
    """Whichever of `among` predicts held-out rows best; `why` tells, `chosen_` is the fitted model.

    The error is relative to the measured value. Half of it comes from random folds, half from upper ranges
    of a numeric factor that the candidate has not seen: of two factors, those of the scale before others.
    Models that search for their terms are tried with up to three numeric columns, or if `among` names them.
    """

    array_options: ClassVar[Mapping[str, Any]] = {"among": ("linear", "quadratic")}  # all of them would take minutes

    chosen_: PerformanceModel
    trials_: tuple[Candidate, ...]

    def __init__(
        self, intrinsic: Names = (), categorical: Names = (), extrinsic: Names = (),
        among: Names = READABLE,
    ) -> None:  # fmt: skip
        super().__init__(intrinsic, categorical, extrinsic)
        self.among = among

    def _rows_needed(self, frame: pd.DataFrame) -> int:
        return 10

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        rows = np.arange(len(y))
        if len(y) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
        few, group = frame.iloc[rows].reset_index(drop=True), None if groups is None else groups[rows]
        self.trials_ = tuple(self._tried(name, few, y[rows], group) for name in self._candidates())
        best = min(self.trials_, key=lambda trial: trial.error)
        if not np.isfinite(best.error):
            raise ModelError("no readable model could be fitted", hint=self.trials_[0].reason)
        self.chosen_ = self._candidate(best.model, frame, y, groups)

    def _candidates(self) -> list[str]:
        among = names(self.among)
        if self.name() in among:
            raise ModelError("model 'auto' cannot choose itself", hint=allowed(READABLE))
        return [name for name in among if among != READABLE or self._readily(name)]

    def _readily(self, name: str) -> bool:
        """Whether a model takes part without being named, for that many columns."""
        most = load_model_class(name).most_columns_in_auto
        return most is None or len(self.roles_.numeric) <= most

    def _candidate(
        self, name: str, frame: pd.DataFrame, y: Array, groups: Array | None, *, quick: bool = False
    ) -> PerformanceModel:
        # A search that is cut short ranks a model well enough; the chosen one is then fitted in full.
        options = load_model_class(name).quick_options if quick else {}
        made = load_model_class(name)(*asdict(self.roles_).values(), **options)
        made.roles_, made.target_ = self.roles_, self.target_
        made._learn(frame.reset_index(drop=True), y, groups)
        return made

    def _tried(self, name: str, frame: pd.DataFrame, y: Array, groups: Array | None) -> Candidate:
        try:
            random = self._error(name, frame, y, groups, folds(len(y), groups, RANDOM_FOLDS))
            scale_first = (*self.roles_.extrinsic, *self.roles_.intrinsic)
            ranges = self._error(name, frame, y, groups, upper_ranges(frame, scale_first)[:MOST_RANGES])
        except (SteplabError, ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            return Candidate(name, None, None, str(error) or type(error).__name__)
        return Candidate(name, random, ranges)

    def _error(
        self, name: str, frame: pd.DataFrame, y: Array, groups: Array | None, splits: Sequence[Split]
    ) -> float | None:
        misses = []
        floor = 0.1 * float(np.median(np.abs(y))) or 1.0
        for train, test in splits:
            group = None if groups is None else groups[train]
            model = self._candidate(name, frame.iloc[train], y[train], group, quick=True)
            known = test[model._known(frame.iloc[test])]
            if len(known):
                predicted = model._predict(frame.iloc[known].reset_index(drop=True))
                misses.append(float(np.mean(np.abs(predicted - y[known]) / np.maximum(np.abs(y[known]), floor))))
        return 100 * float(np.mean(misses)) if misses else None

    def _predict(self, frame: pd.DataFrame) -> Array:
        return self.chosen_._predict(frame)

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        return self.chosen_._held_out(frame, y, groups)

    def _spread(self, frame: pd.DataFrame) -> Array:
        return self.chosen_._spread(frame)

    def formula(self) -> Formula | None:
        """The chosen model's formula."""
        return self.chosen_.formula()

    def parameters(self) -> list[Parameter]:
        """The chosen model's parameters."""
        return self.chosen_.parameters()

    def why(self) -> str:
        """One sentence on what was chosen, against what."""
        ranked = sorted(self.trials_, key=lambda trial: trial.error)
        told = [f"{t.model} {t.error:.1f} %" for t in ranked if np.isfinite(t.error)]
        failed = [f"{t.model} could not be fitted" for t in ranked if not np.isfinite(t.error)]
        return f"{ranked[0].model} has the least held-out error: " + ", ".join(told + failed)

    def _state(self) -> dict[str, Any]:
        trials = [asdict(trial) for trial in self.trials_]
        state = {"chosen": self.chosen_.name(), "state": self.chosen_._state(), "trials": trials}
        package = provider(self.chosen_.name())
        return state if package is None else state | {"provider": package}

    def _restore(self, state: Mapping[str, Any]) -> None:
        if state["chosen"] == self.name():
            raise ValueError("the chosen model is the one that chooses")
        made = saved_model_class(state["chosen"], state.get("provider"))(*asdict(self.roles_).values())
        made.roles_, made.range_, made.levels_ = self.roles_, self.range_, self.levels_
        made.target_, made.rows_ = self.target_, self.rows_
        made._restore(state["state"])
        self.chosen_, self.trials_ = made, tuple(Candidate(**trial) for trial in state["trials"])


MODEL = Auto
