"""Physics of a synchronous step first (compute, waiting, collectives, overlap), data for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError, allowed
from steplab.models.base import Array, Parameter, PerformanceModel, folds, numbers
from steplab.models.columns.meaning import Parts, find_parts
from steplab.models.columns.roles import Names
from steplab.models.formulas import physics
from steplab.models.formulas.flat_law import FlatLaw, flat_law
from steplab.models.formulas.formula import Formula, Node, column, level, number, op
from steplab.models.formulas.hybrid_formula import corrected, law_formula, law_parameters
from steplab.models.formulas.law_choice import best_extrapolating
from steplab.models.formulas.physics import Factor, StepLaw
from steplab.models.learned.kriging import Kriging, learn, nothing, with_lengths

OFFERED = {"auto": 10, "compare": 0, "report": 50}
# Residuals beyond four typical ones are outliers; the correction must not chase them.
OUTLIER = 4 * 1.4826
# Beyond the measured range this share of the correction stays what it is at the border, and the rest fades.
STAYING = 0.5


class Hybrid(PerformanceModel):
    """t = (C^γ + S^γ)^(1/γ) · correction: see `_physics` for the law of compute C and communication S.

    The correction is a smooth function of the factors; beyond the measured range half of it fades, and half stays what
    it is at the border. `law` is the formula without it. `workers`, `batch` and `nodes` name the columns that the
    law needs; left empty they are recognised by their names, "none" switches one off. `scaling` is "weak" if each
    worker has a batch of its own, "strong" if they share it; left empty, the better fit decides. With a column of
    nodes the time is the geometric mean of this law and that of one collective over all workers; `blend=False`
    leaves the latter out.
    """

    needs_positive_target: ClassVar[str] = "it describes times, which are positive"

    law_: StepLaw
    theta_: Array
    flat_: FlatLaw | None  # where there is a column of nodes: the law with all workers as equals
    correction_: Kriging
    staying_: float  # the share of the correction that stays beyond the border; 0 in files from before
    held_: dict[str, tuple[float, float]]  # where that border is
    errors_: Array

    def __init__(
        self, intrinsic: Names = (), categorical: Names = (), extrinsic: Names = (),
        workers: str = "", batch: str = "", nodes: str = "", scaling: str = "",
        correct: bool = True, blend: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(intrinsic, categorical, extrinsic)
        self.workers, self.batch, self.nodes = workers, batch, nodes
        self.scaling, self.correct, self.blend = scaling, correct, blend

    def _rows_needed(self, frame: pd.DataFrame) -> int:
        return len(frame.columns) + 3

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        if np.min(y) <= 0:
            hint = "remove rows with a target of zero or below, or use another model"
            raise ModelError("model 'hybrid' describes times, which are positive", hint=hint)
        laws = self._laws(frame)
        thetas = [physics.fit_law(law, law.inputs(frame), y) for law in laws]
        misfits = [physics.misfit(law, t, law.inputs(frame), y) for law, t in zip(laws, thetas, strict=True)]
        best = int(np.argmin(misfits))
        self.law_, self.theta_ = laws[best], thetas[best]
        better = best_extrapolating(self.law_, frame, y)
        if better != self.law_:
            self.law_, self.theta_ = better, physics.fit_law(better, better.inputs(frame), y)
        at = self.law_.inputs(frame)
        self.errors_ = physics.uncertainty(self.law_, self.theta_, at, y)
        self.flat_ = flat_law(self.law_, frame, y) if self._blends(frame) else None
        self.staying_, self.held_ = STAYING, self.range_
        place = self._places(frame)
        self.correction_ = learn(place, self._left(frame, y)) if self.correct else nothing(place.shape[1])

    def _blends(self, frame: pd.DataFrame) -> bool:
        """Whether the law within and between nodes is joined by the flat one: they differ where nodes vary."""
        nodes = self.law_.parts.nodes
        return bool(self.blend and nodes and frame[nodes].nunique() > 1)

    def _law_time(self, frame: pd.DataFrame) -> Array:
        """The time of a step without the correction."""
        own = physics.step_time(self.law_, self.theta_, self.law_.inputs(frame))
        return own if self.flat_ is None else self.flat_.joined(own, frame)

    def _laws(self, frame: pd.DataFrame) -> list[StepLaw]:
        """The law; both with own and with shared batches unless the column's name or the user decides."""
        parts = find_parts(frame, self.roles_.numeric, self.workers, self.batch, self.nodes)
        if parts.workers and frame[parts.workers].max() <= 1:
            parts = Parts("", parts.batch, "")
        if parts.batch and frame[parts.batch].min() <= 0:
            parts = replace(parts, batch="")
        others = [name for name in self.roles_.numeric if name not in parts.columns]
        further = tuple(physics.factors(frame, others, self.levels_))
        if not parts.workers or parts.shared or self.scaling:
            return [StepLaw(replace(parts, shared=bool(parts.workers) and self._strong(parts)), further)]
        return [StepLaw(parts, further), StepLaw(replace(parts, shared=True), further)]

    def _strong(self, parts: Parts) -> bool:
        if self.scaling not in ("", "weak", "strong"):
            raise ModelError(f"scaling is {self.scaling!r}", hint=allowed(("weak", "strong")))
        return self.scaling == "strong" or (parts.shared and not self.scaling)

    def _left(self, frame: pd.DataFrame, y: Array) -> Array:
        """What the law leaves unexplained, in logarithms, without outliers."""
        left = np.log(y) - np.log(self._law_time(frame))
        limit = OUTLIER * max(float(np.median(np.abs(left))), 1e-9)
        return np.asarray(np.clip(left, -limit, limit))

    def _place_nodes(self, *, held: bool = False) -> list[Node]:
        """The coordinates of the correction: factors in units of their measured range, logarithmic where positive.

        With `held` they stop at the border.
        """
        nodes = []
        for name, (low, high) in self.range_.items():
            value = column(name)
            if held:
                border = self.held_[name]
                value = op("min", op("max", value, number(border[0])), number(border[1]))
            if high > low > 0:
                size = op("log", op("max", value, number(low * 1e-3)))
                nodes.append(_share(size, np.log(low), np.log(high)))
            elif high > low:
                nodes.append(_share(value, low, high))
        for name, known in self.levels_.items():
            if len(known) > 1:
                nodes += [level(name, {other: float(other == chosen) for other in known}) for chosen in known]
        return nodes

    def _places(self, frame: pd.DataFrame, *, held: bool = False) -> Array:
        """Those coordinates for each row."""
        columns = [Formula(node).evaluate(frame) for node in self._place_nodes(held=held)]
        return np.column_stack(columns) if columns else np.empty((len(frame), 0))

    def _correction(self, frame: pd.DataFrame) -> Array:
        """The logarithm of what the law is multiplied by."""
        fading = self.correction_.predict(self._places(frame))
        if not self.staying_:
            return fading
        staying = self.correction_.predict(self._places(frame, held=True))
        return np.asarray((1 - self.staying_) * fading + self.staying_ * staying)

    def _correction_node(self) -> Node | None:
        """The same as a piece of a formula."""
        fading = self.correction_.node(self._place_nodes(), 1 - self.staying_)
        staying = self.correction_.node(self._place_nodes(held=True), self.staying_) if self.staying_ else None
        return fading if fading is None or staying is None else op("add", fading, staying)

    def _predict(self, frame: pd.DataFrame) -> Array:
        return np.asarray(self._law_time(frame) * np.exp(self._correction(frame)))

    def _held_out(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Array:
        """Refits from the full solution, with the correction's lengths kept: quick, and still unseen."""
        predicted = np.empty(len(y))
        for train, test in folds(len(y), groups, self.interval_folds):
            other = self._refitted(frame.iloc[train].reset_index(drop=True), y[train], self.theta_)
            predicted[test] = other._predict(frame.iloc[test].reset_index(drop=True))
        return predicted

    def _border_copy(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> Hybrid:
        """Refits with the kind of law and the correction's lengths kept."""
        # From the usual values, not from the full solution: that would know what lies beyond the border.
        held = {c: (float(frame[c].min()), float(frame[c].max())) for c in self.range_}
        return self._refitted(frame.reset_index(drop=True), y, None, held)

    def _refitted(
        self, frame: pd.DataFrame, y: Array, start: Array | None, held: dict[str, tuple[float, float]] | None = None
    ) -> Hybrid:
        other = copy(self)
        other.held_ = held or self.held_
        at = self.law_.inputs(frame)
        other.theta_ = physics.fit_law(self.law_, at, y, start, quick=True)
        if self.flat_ is not None:
            other.flat_ = self.flat_.refitted(frame, y, None if start is None else self.flat_.theta)
        if len(self.correction_.points):
            known, place = self.correction_, other._places(frame)
            left = other._left(frame, y)
            other.correction_ = with_lengths(place, left, known.lengths, known.signal, known.noise)
        return other

    def formula(self) -> Formula:
        """The law times the local correction, which is a sum of bumps at measured points."""
        return Formula(corrected(self.law().tree, self._correction_node()))

    def law(self) -> Formula:
        """The law alone: what is left far from the measured points."""
        own = law_formula(self.law_, self.theta_)
        return own if self.flat_ is None else Formula(self.flat_.node(own.tree))

    def parameters(self) -> list[Parameter]:
        """Every coefficient of the law, with its meaning; those of the flat law after them."""
        return law_parameters(self.law_, self.theta_, self.errors_) + (self.flat_.parameters() if self.flat_ else [])

    def _state(self) -> dict[str, Any]:
        kinds = {kind: True for kind in ("linear", "contended") if getattr(self.law_, kind)}
        flat = {} if self.flat_ is None else {"flat": self.flat_.to_document()}
        return {
            "parts": self.law_.parts.document(), "factors": [asdict(factor) for factor in self.law_.factors],
            "theta": self.theta_.tolist(), "errors": self.errors_.tolist(),
            "correction": {
                "points": self.correction_.points.tolist(), "weights": self.correction_.weights.tolist(),
                "lengths": self.correction_.lengths.tolist(), "signal": self.correction_.signal,
                "noise": self.correction_.noise,
            } | ({"staying": self.staying_} if self.staying_ else {}),
        } | kinds | flat  # fmt: skip

    def _restore(self, state: Mapping[str, Any]) -> None:
        parts, factors = Parts(**state["parts"]), tuple(Factor(**factor) for factor in state["factors"])
        used = {*parts.columns, *(factor.column for factor in factors)}
        if not used <= set(self.roles_.columns):
            raise ValueError("the law names columns that the model does not have")
        # Files from before know the usual law only.
        kinds = (bool(state.get("linear", False)), bool(state.get("contended", False)) and bool(parts.workers))
        self.law_ = StepLaw(parts, factors, False, *kinds)
        unknowns = len(self.law_.names)
        self.theta_, self.errors_ = numbers(state["theta"], unknowns), numbers(state["errors"], unknowns)
        # Files from before know one law only.
        self.flat_ = FlatLaw.from_document(state["flat"], self.law_) if state.get("flat") else None
        saved = state["correction"]
        # Of files from before all of it fades.
        self.staying_, self.held_ = float(saved.get("staying", 0.0)), self.range_
        if not 0 <= self.staying_ <= 1:
            raise ValueError("the staying share of the correction is damaged")
        lengths = numbers(saved["lengths"], len(self._place_nodes()))
        if np.any(lengths <= 0):
            raise ValueError("a length of the correction is not positive")
        points = numbers(saved["points"], None, len(lengths)) if saved["points"] else np.empty((0, len(lengths)))
        weights = numbers(saved["weights"], len(points))
        self.correction_ = Kriging(points, weights, lengths, float(saved["signal"]), float(saved["noise"]))


def _share(node: Node, low: float, high: float) -> Node:
    return op("div", op("sub", node, number(low)), number(high - low))


MODEL = Hybrid
