"""Physics, unless another readable model is clearly better on held-out rows, random and beyond the range; and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError, NotEnoughData, SteplabError, allowed
from steplab.models import load_model_class, offered, provider, saved_model_class
from steplab.models.base import Array, Parameter, PerformanceModel, folds
from steplab.models.columns.roles import Names, names
from steplab.models.formulas.formula import Formula
from steplab.models.held_out.calibration import Interval
from steplab.models.held_out.extrapolation import Rates, inner_borders
from steplab.models.held_out.ranges import Split

OFFERED = {"compare": 0, "report": 5}
READABLE = offered("auto")
PHYSICS = "hybrid"
# Another model must be better than the physics by this share of its error, and by one standard error. Judged at fewer
# borders than `ENOUGH`, or at none of a factor that varies, little is known of how models extrapolate: then it must
# halve the error.
MARGIN, FEW_MARGIN, ENOUGH = 0.1, 0.5, 6
# Choosing needs fewer rows than fitting what was chosen.
MOST_ROWS = 300
RANDOM_FOLDS, MOST_COLUMNS, BORDERS = 3, 3, 3
# A row that is off by more than this many times the measured value counts as that: one explosion says enough.
WORST_MISS = 3.0


@dataclass(frozen=True)
class Candidate:
    """One candidate's held-out error in per cent: on random folds, beyond inner borders, and at each of these."""

    model: str
    random: float | None
    ranges: float | None
    reason: str = ""
    each: tuple[float, ...] = ()

    @property
    def error(self) -> float:
        """What is compared: the mean of both kinds of error."""
        known = [value for value in (self.random, self.ranges) if value is not None]
        return float(np.mean(known)) if known and not self.reason else np.inf


def chosen_candidate(trials: Sequence[Candidate], *, unjudged: bool = False) -> Candidate:
    """The physics, or the best of the others if it is clearly better: by a margin, and by one standard error.

    `unjudged` says that some factor has no border inside its range at which models could be judged.

    >>> chosen_candidate([Candidate("hybrid", 5.0, 5.0, "", (5, 5)), Candidate("linear", 4.9, 4.9, "", (4, 5.8))]).model
    'hybrid'
    """
    best = min(trials, key=lambda trial: trial.error)
    physics = next((trial for trial in trials if trial.model == PHYSICS and math.isfinite(trial.error)), None)
    if physics is None or best is physics:
        return best
    gain = physics.error - best.error
    margin = FEW_MARGIN if unjudged or len(physics.each) - RANDOM_FOLDS < ENOUGH else MARGIN
    return best if gain > max(margin * physics.error, _standard_error(physics, best)) else physics


def _standard_error(physics: Candidate, other: Candidate) -> float:
    """Of the mean difference of two candidates over the same splits."""
    if len(physics.each) != len(other.each) or len(physics.each) < 2:
        return 0.0
    differences = np.subtract(physics.each, other.each)
    return float(np.std(differences, ddof=1) / math.sqrt(len(differences)))


class Auto(PerformanceModel):
    """Physics (`hybrid`), unless another of `among` is clearly better; `why` tells, `chosen_` is the fitted model.

    The error is relative to the measured value. Half of it comes from random folds, half from rows beyond borders
    inside the range of up to three numeric factors, those of the scale before others. Clearly better is less by a
    tenth (by half, if there are fewer than six borders or a factor of the scale has two values) and by one standard
    error. Models that search for their terms are tried with up to three numeric columns, or if they are named.
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
        # Two values have no border between them, and what models make of them differs most outside.
        unjudged = any(frame[c].nunique() == 2 for c in self.roles_.extrinsic)
        best = chosen_candidate(self.trials_, unjudged=unjudged)
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
        model = load_model_class(name)(*asdict(self.roles_).values(), **options)
        model.roles_, model.target_ = self.roles_, self.target_
        model._learn(frame.reset_index(drop=True), y, groups)
        return model

    def _tried(self, name: str, frame: pd.DataFrame, y: Array, groups: Array | None) -> Candidate:
        try:
            model = self._candidate(name, frame, y, groups, quick=True)
            random = self._errors(model, frame, y, groups, folds(len(y), groups, RANDOM_FOLDS))
            ranges = self._errors(model, frame, y, groups, self._ranges(frame))
        except (SteplabError, ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            return Candidate(name, None, None, str(error) or type(error).__name__)
        return Candidate(name, _mean(random), _mean(ranges), "", (*random, *ranges))

    def _ranges(self, frame: pd.DataFrame) -> list[Split]:
        """Rows up to and beyond several borders of the factors with a curve, those of the scale first."""
        columns = [c for c in (*self.roles_.extrinsic, *self.roles_.intrinsic) if frame[c].nunique() > 2]
        fewest = max(6, len(self.roles_.columns) + 3)
        borders = [b for c in columns[:MOST_COLUMNS] for b in inner_borders(frame, c, fewest, BORDERS)]
        return [(border.train, border.test) for border in borders]

    def _errors(
        self, model: PerformanceModel, frame: pd.DataFrame, y: Array, groups: Array | None, splits: Sequence[Split]
    ) -> list[float]:
        """The error in per cent at each split; a split that cannot be fitted counts as a complete miss."""
        errors = []
        floor = 0.1 * float(np.median(np.abs(y))) or 1.0
        for train, test in splits:
            try:
                other = model._border_copy(frame.iloc[train], y[train], None if groups is None else groups[train])
            except NotEnoughData:
                errors.append(100.0)
                continue
            known = test[other._known(frame.iloc[test])]
            if len(known):
                predicted = other._predict(frame.iloc[known].reset_index(drop=True))
                miss = np.abs(predicted - y[known]) / np.maximum(np.abs(y[known]), floor)
                errors.append(100 * float(np.mean(np.minimum(miss, WORST_MISS))))
        return errors

    def _predict(self, frame: pd.DataFrame) -> Array:
        return self.chosen_._predict(frame)

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        return self.chosen_._held_out(frame, y, groups)

    def _rates(self, frame: pd.DataFrame, y: Array, groups: Array | None, interval: Interval) -> Rates:
        return self.chosen_._rates(frame, y, groups, interval)

    def formula(self) -> Formula | None:
        """The chosen model's formula."""
        return self.chosen_.formula()

    def parameters(self) -> list[Parameter]:
        """The chosen model's parameters."""
        return self.chosen_.parameters()

    def why(self) -> str:
        """What was chosen and why, and how the others did, in a sentence or two."""
        chosen = next(trial for trial in self.trials_ if trial.model == self.chosen_.name())
        others = sorted((t for t in self.trials_ if t is not chosen), key=lambda trial: trial.error)
        told = [f"{t.model} {t.error:.1f} %" for t in others if np.isfinite(t.error)]
        told += [f"{t.model} could not be fitted" for t in others if not np.isfinite(t.error)]
        return f"{why_chosen(chosen, others)}: {_detail(chosen)}" + (f"; {', '.join(told)}" if told else "")

    def _state(self) -> dict[str, Any]:
        trials = [_plain(trial) for trial in self.trials_]
        state = {"chosen": self.chosen_.name(), "state": self.chosen_._state(), "trials": trials}
        package = provider(self.chosen_.name())
        return state if package is None else state | {"provider": package}

    def _restore(self, state: Mapping[str, Any]) -> None:
        if state["chosen"] == self.name():
            raise ValueError("the chosen model is the one that chooses")
        model = saved_model_class(state["chosen"], state.get("provider"))(*asdict(self.roles_).values())
        model.roles_, model.range_, model.levels_ = self.roles_, self.range_, self.levels_
        model.target_, model.rows_ = self.target_, self.rows_
        model._restore(state["state"])
        self.chosen_, self.trials_ = model, tuple(_candidate_from(trial) for trial in state["trials"])
        if model.name() not in {trial.model for trial in self.trials_}:
            raise ValueError("the chosen model was not tried")


def _mean(errors: Sequence[float]) -> float | None:
    return float(np.mean(errors)) if errors else None


def why_chosen(chosen: Candidate, others: Sequence[Candidate]) -> str:
    """Why a model was chosen; the others stand in the order of their errors."""
    better = [trial for trial in others if trial.error < chosen.error]
    if chosen.model == PHYSICS:
        told = _not_clearly(chosen, better[0]) if better else "it has the least held-out error"
        return f"{chosen.model} (physics) was chosen, as {told}"
    physics = any(trial.model == PHYSICS and math.isfinite(trial.error) for trial in others)
    return f"{chosen.model} was chosen, as it has the least held-out error" + (
        f", clearly less than {PHYSICS}" if physics else ""
    )


def _not_clearly(physics: Candidate, best: Candidate) -> str:
    """Why the physics is kept although another model has less held-out error."""
    gain = physics.error - best.error
    if gain <= _standard_error(physics, best):
        return f"{best.model} errs less by no more than chance"
    if gain <= MARGIN * physics.error:
        return f"{best.model} errs less by no more than {MARGIN:.0%}"
    return f"{best.model} errs less, but is judged at too few borders to trust it beyond the data"


def _detail(chosen: Candidate) -> str:
    kinds = (("on random rows", chosen.random), ("beyond inner borders", chosen.ranges))
    parts = ", ".join(f"{error:.1f} % {kind}" for kind, error in kinds if error is not None)
    return f"{chosen.model} {chosen.error:.1f} % ({parts})"


def _plain(trial: Candidate) -> dict[str, Any]:
    """As JSON data; what a file from before does not have is left out."""
    return {key: value for key, value in asdict(trial).items() if key != "each"} | (
        {"each": list(trial.each)} if trial.each else {}
    )


def _candidate_from(saved: Mapping[str, Any]) -> Candidate:
    return Candidate(**{**saved, "each": tuple(float(error) for error in saved.get("each", ()))})


MODEL = Auto
