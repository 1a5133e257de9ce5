"""From a table to the solver's problem in typical units, and from its answer back to the table's units.

Factors are divided by their geometric mean and the target by its median, so that the bounds of the source
(0..1000 for coefficients, −5..5 for powers) and the penalties mean the same in every unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError, allowed
from steplab.models.columns.meaning import find_parts
from steplab.models.columns.roles import Roles
from steplab.models.formulas.expression import Expression, PerNode, log_count, log_per_node, more_than_one
from steplab.models.solvers.varpro import USUAL_ERROR, Array, Penalty, PowersPoint, Problem

LOSSES = ("absolute", "relative", "squared")
FORMS = ("steps", "source")
POWER_BOUND = 5.0
POWER_WIDTH = 1.0  # of the weak prior on powers
COUNT_WIDTH = 0.1  # of the prior on powers of workers and nodes, that of the physics (`GROWTH_WIDTH`)
# 0 has no negative power, and 0^0 would make the term a constant.
LEAST_POWER_OF_ZERO = 0.05


@dataclass(frozen=True)
class Counts:
    """What workers and nodes may cost beside the work: steps from one to several, and logarithms."""

    columns: tuple[str, ...] = ()  # those that count workers or nodes
    steps: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    per_node: tuple[str, str] | None = None  # workers and nodes, if the workers of a node have a curve

    def __len__(self) -> int:
        return len(self.steps) + len(self.logs) + (self.per_node is not None)

    def values(self, frame: pd.DataFrame) -> Array | None:
        """A column for each of them, or nothing."""
        terms = [more_than_one(frame[c].to_numpy(float)) for c in self.steps]
        terms += [log_count(frame[c].to_numpy(float)) for c in self.logs]
        terms += [log_per_node(frame, *self.per_node)] if self.per_node else []
        return np.column_stack(terms) if terms else None


@dataclass(frozen=True)
class Prepared:
    """A problem, and what is needed to read its answer in the table's units."""

    problem: Problem
    roles: Roles
    intrinsic: tuple[str, ...]  # the columns that vary; the others carry no information
    extrinsic: tuple[str, ...]
    levels: Mapping[str, Sequence[str]]
    typical: Mapping[str, float]  # the geometric mean of each factor
    unit: float  # the typical target
    counts: Counts = Counts()

    def expression(self, point: PowersPoint) -> Expression:
        """The solver's answer in the table's units."""
        n = len(self.intrinsic)
        p = dict(zip(self.intrinsic, point.theta[:n].tolist(), strict=True))
        q = dict(zip(self.extrinsic, point.theta[n:].tolist(), strict=True))
        scale = self.unit * float(np.prod([self.typical[c] ** -q[c] for c in q]))
        coef = {c: float(a) * scale * self.typical[c] ** -p[c]
                for c, a in zip(self.intrinsic, point.coef[:n], strict=True)}  # fmt: skip
        counts = self.counts
        end = len(point.coef) - 1 - len(counts)
        base, levels = self._against_reference(point.coef[n:end] * scale)
        names, costs = self.roles.intrinsic, (point.coef[end:-1] * self.unit).tolist()
        return Expression(
            {c: coef.get(c, 0.0) for c in names}, {c: p.get(c, 0.0) for c in names},
            base, levels, {c: q.get(c, 0.0) for c in self.roles.extrinsic}, float(point.coef[-1]) * self.unit,
            dict(zip(counts.steps, costs, strict=False)),
            dict(zip(counts.logs, costs[len(counts.steps) :], strict=False)),
            PerNode(*counts.per_node, costs[-1]) if counts.per_node else None,
        )  # fmt: skip

    def _against_reference(self, shares: Array) -> tuple[float, dict[str, dict[str, float]]]:
        """One share per level of every factor, turned into a base and differences from the first levels."""
        if not self.levels:
            return (float(shares[0]) if len(shares) else 0.0), {}
        base, differences, at = 0.0, {}, 0
        for name, known in self.levels.items():
            own = shares[at : at + len(known)]
            base, at = base + float(own[0]), at + len(known)
            differences[name] = {lv: float(share - own[0]) for lv, share in zip(known, own, strict=True)}
        return base, differences


def _logarithms(
    table: Mapping[str, Array], columns: Sequence[str], typical: Mapping[str, float], rows: int
) -> tuple[Array, Array]:
    values = np.empty((rows, len(columns)), order="F")
    for place, c in enumerate(columns):
        np.divide(table[c], typical[c], out=values[:, place])
    on = values > 0
    logs = np.zeros_like(values)
    np.log(values, out=logs, where=on)
    return logs, on.astype(float)


def _typical(table: Mapping[str, Array], columns: Sequence[str]) -> dict[str, float]:
    typical = {}
    for c in columns:
        values = table[c]
        if values.min() < 0:
            hint = "make it categorical, or shift it above 0"
            raise ModelError(f"column {c!r} holds negative values, which have no powers", hint=hint)
        above = values if values.min() > 0 else values[values > 0]
        typical[c] = float(np.exp(np.log(above).mean())) if len(above) else 1.0
    return typical


def distinct_values(table: Mapping[str, Array]) -> dict[str, int]:
    """How many values each column of numbers or text has."""
    return {c: _distinct(values) for c, values in table.items()}


def _distinct(values: Array) -> int:
    if values.dtype == object or not len(values):
        return len(set(values.tolist()))
    ordered = np.sort(values)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _error_unit(y: Array, loss: str) -> Array:
    if loss not in LOSSES:
        raise ModelError(f"loss {loss!r} is unknown", hint=allowed(LOSSES))
    if loss == "relative" and (y == 0).any():
        raise ModelError("a relative error of a target of 0 has no meaning", hint="use the absolute loss")
    return np.abs(y) if loss == "relative" else np.ones(len(y))


def counted(frame: pd.DataFrame, roles: Roles) -> Counts:
    """Steps of counts that pass from one to several, logarithms of nodes, of their workers, or of all workers."""
    parts = find_parts(frame, roles.numeric)
    columns = tuple(c for c in (parts.workers, parts.nodes) if c)
    values = {c: frame[c].to_numpy(float) for c in columns}
    steps = tuple(c for c in columns if values[c].min() <= 1 < values[c].max())
    # Two values have no curve: their difference is the step, or a change of the work.
    distinct = distinct_values(values)
    curved = tuple(c for c in columns if distinct[c] > 2)
    if parts.nodes and len(np.unique(log_per_node(frame, parts.workers, parts.nodes))) > 2:
        return Counts(columns, steps, tuple(c for c in curved if c == parts.nodes), (parts.workers, parts.nodes))
    return Counts(columns, steps, tuple(c for c in curved if c == parts.workers))


def _usual(intrinsic: Sequence[str], extrinsic: Sequence[str]) -> Array:
    """Where powers lie unless the data tell otherwise: 1 for intrinsic factors, 0 for extrinsic ones."""
    return np.concatenate([np.ones(len(intrinsic)), np.zeros(len(extrinsic))])


def prepare(
    frame: pd.DataFrame, y: Array, roles: Roles, levels: Mapping[str, Sequence[str]], loss: str, penalty: Penalty,
    form: str = "source",
) -> Prepared:  # fmt: skip
    """The solver's problem for a table: the source's form, or ours with terms of counts, a base and a weak prior."""
    if form not in FORMS:
        raise ModelError(f"form {form!r} is unknown", hint=allowed(FORMS))
    ours = form == "steps"
    # Arrays once: to ask a table for a column costs more than the work on it.
    table = {c: frame[c].to_numpy() for c in roles.columns}
    typical = _typical(table, roles.numeric)
    distinct = distinct_values({c: table[c] for c in roles.numeric})
    intrinsic = tuple(c for c in roles.intrinsic if distinct[c] > 1)
    extrinsic = tuple(c for c in roles.extrinsic if distinct[c] > 1)
    inner, inner_on = _logarithms(table, intrinsic, typical, len(y))
    outer, outer_on = _logarithms(table, extrinsic, typical, len(y))
    columns = [(table[c] == name).astype(float) for c, known in levels.items() for name in known]
    if not levels and (ours or len(intrinsic) < max(len(roles.intrinsic), 1)):
        columns = [np.ones(len(frame))]
    counts = counted(frame, roles) if ours else Counts()
    unit = float(np.median(np.abs(y))) or float(np.max(np.abs(y))) or 1.0
    has_zero = np.concatenate([(inner_on == 0).any(axis=0), (outer_on == 0).any(axis=0)])
    shares = np.asfortranarray(np.column_stack(columns)) if columns else np.empty((len(frame), 0))
    problem = Problem(
        inner, inner_on, outer, outer_on, shares, y / unit, _error_unit(y / unit, loss),
        low=np.where(has_zero, LEAST_POWER_OF_ZERO, -POWER_BOUND),
        # What costs more at the larger of two counts is no power: that would double with every doubling.
        high=np.array([0.0 if c in counts.columns and c in extrinsic and distinct[c] == 2 else POWER_BOUND
                       for c in (*intrinsic, *extrinsic)]),
        # Two values of a factor show a difference but no curve: its power stays at a whole number.
        moving=np.array([distinct[c] > 2 for c in intrinsic] + [not ours or distinct[c] > 2 for c in extrinsic], bool),
        squared=loss == "squared", has_zeros=bool(has_zero.any()), penalty=penalty,
        counts=counts.values(frame),
        usual=_usual(intrinsic, extrinsic) if ours else None,
        width=np.array([POWER_WIDTH] * len(intrinsic) + [_width(c, counts) for c in extrinsic]) if ours else None,
        shared=np.array([False] * len(intrinsic) + [c in counts.columns for c in extrinsic], bool) if ours else None,
        pull=_pull(len(y), loss == "squared") if ours else 0.0,
    )  # fmt: skip
    return Prepared(problem, roles, intrinsic, extrinsic, levels, typical, unit, counts)


def _width(column: str, counts: Counts) -> float:
    """How far a power of the scale plausibly lies from its usual value."""
    return COUNT_WIDTH if column in counts.columns else POWER_WIDTH


def _pull(rows: int, squared: bool) -> float:
    """The price of a power's squared distance from its usual value: a normal prior beside errors of a usual size."""
    return USUAL_ERROR**2 / rows if squared else USUAL_ERROR / (2 * rows)
