"""Designed experiments as a statistician analyses them: effects, interactions and ANOVA, with blocks and checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.effects import contrasts
from steplab.analysis.effects.anova import (
    Fit,
    ModelMatrix,
    Term,
    block_term,
    factor_term,
    intercept,
    slope_term,
    tested_fit,
)
from steplab.analysis.effects.box_cox import choose_scale
from steplab.analysis.effects.contrasts import Marginal
from steplab.analysis.effects.error_term import FEWEST_DF, Within, error_kind, error_term, within_cells
from steplab.analysis.effects.findings import (
    AnovaRow,
    Check,
    Designed,
    Effect,
    ErrorTerm,
    Inestimable,
    Interaction,
    Scale,
    Trend,
)
from steplab.analysis.effects.layout import Layout, layout
from steplab.analysis.effects.residual_checks import Residuals
from steplab.analysis.effects.residual_checks import residual_checks as look_at
from steplab.analysis.effects.unequal_noise import UnequalNoise, cell_noise
from steplab.analysis.statistics.differences import LEVEL
from steplab.analysis.statistics.holm import holm
from steplab.analysis.statistics.variances import Moderated

__all__ = ["Effect", "anova", "designed", "interactions", "main_effects", "residual_checks"]

Array = NDArray[np.float64]
MOST_PAIRS = 21  # all pairs of seven factors
MOST_COLUMNS = 400
EXACT = 1e-9  # a spread below that is rounding


def designed(trials: pd.DataFrame, factors: Sequence[str]) -> Designed:
    """Analyse the good trials of a study as a designed experiment.

    The model has the replicates as blocks, every factor and every pair of factors that the trials can tell. Only
    trials with status `ok` count; the others are named.
    """
    plan = layout(trials, factors) if len(trials) else None
    if plan is None or not (plan.factors or plan.slopes):
        return _nothing(plan)
    model = _modelled(plan)
    logged = model.scale.name == "log"
    marginal = Marginal(model.fit, plan, logged, model.error.spread, model.error.df, model.unequal(model.fit))
    mains = [term.factors[0] for term in model.kept if len(term.factors) == 1 and term.factors[0] < len(plan.factors)]
    pairs = [(term.factors[0], term.factors[1]) for term in model.kept if len(term.factors) == 2]
    slopes = [at for at in model.fit.chosen if _is_slope(model.fit.design.terms[at], plan)]
    known = model.error.kind != "none"
    main, trends = contrasts.factor_findings(marginal, mains, slopes) if known else ([], [])
    together = contrasts.interactions(marginal, pairs) if known else []
    return Designed(
        factors=tuple(factor.name for factor in plan.factors) + tuple(slope.name for slope in plan.slopes),
        levels=tuple(len(factor.levels) for factor in plan.factors),
        trials=len(plan.table),
        blocks=plan.blocks,
        scale=model.scale,
        error=model.error,
        sums="III" if plan.grid and not plan.missing else "II",
        main=main,
        interactions=together,
        anova=with_verdicts(_table(model), main, trends, together),
        means=[mean for at in mains for mean in contrasts.means(marginal, (at,))],
        pair_means=[mean for pair in pairs for mean in contrasts.means(marginal, pair)],
        trends=trends,
        checks=look_at(model.residuals),
        missing=plan.missing,
        broken=plan.broken,
        inestimable=list(model.inestimable),
        notes=[*plan.notes, *model.notes],
        unequal=model.noise is not None,
    )


def main_effects(trials: pd.DataFrame, factors: Sequence[str]) -> list[Effect]:
    """By which factor each level multiplies the step time, all other factors averaged with equal weights."""
    return designed(trials, factors).main


def interactions(trials: pd.DataFrame, factors: Sequence[str]) -> list[Interaction]:
    """What combinations of two levels cost beyond the two effects alone."""
    return designed(trials, factors).interactions


def anova(trials: pd.DataFrame, factors: Sequence[str]) -> list[AnovaRow]:
    """The analysis of variance, blocks first, residual last."""
    return designed(trials, factors).anova


def residual_checks(trials: pd.DataFrame, factors: Sequence[str]) -> list[Check]:
    """Whether the assumptions behind the intervals hold, each in one sentence."""
    return designed(trials, factors).checks


def _nothing(plan: Layout | None) -> Designed:
    """The answer of a study in which no factor varies among good trials."""
    return Designed(
        factors=(), levels=(), trials=len(plan.table) if plan else 0, blocks=plan.blocks if plan else 0,
        scale=Scale("log", None, None, None, "times multiply"),
        error=ErrorTerm("none", 0, None, "no factor takes two levels among the good trials"),
        sums="III", main=[], interactions=[], anova=[], means=[], pair_means=[], trends=[], checks=[],
        missing=plan.missing if plan else [], broken=plan.broken if plan else (), inestimable=[],
        notes=list(plan.notes) if plan else [],
    )  # fmt: skip


@dataclass(frozen=True)
class _Model:
    """The fitted model and what was decided on the way."""

    plan: Layout
    fit: Fit
    response: Array
    pure: Within
    scale: Scale
    error: ErrorTerm
    residuals: Residuals
    noise: Moderated | None  # of each cell, where they are not equally noisy
    inestimable: tuple[Inestimable, ...]
    notes: tuple[str, ...]

    def unequal(self, fit: Fit) -> UnequalNoise | None:
        """The noise of a fit's coefficients, where cells are not equally noisy."""
        return UnequalNoise(fit, self.plan, self.noise) if self.noise is not None else None

    @property
    def kept(self) -> list[Term]:
        """The terms in the model."""
        return [self.fit.design.terms[at] for at in self.fit.chosen]


def _modelled(plan: Layout) -> _Model:
    """Choose terms, error and scale, then fit."""
    within = within_cells(plan)
    logs = np.log(plan.seconds)
    pure = within(logs)
    design, chosen, lost, notes = _terms(plan, logs, pure.df)
    first = Fit(design, chosen, logs)
    kind = error_kind(plan, pure.df, first.df)

    def left(response: Array) -> float:
        return (within(response) if kind == "replicates" else Fit(design, chosen, response)).sum_squares

    scale = choose_scale(plan.seconds, left, pure.df if kind == "replicates" else first.df)
    response = logs if scale.name == "log" else plan.seconds
    fit, pure = Fit(design, chosen, response), within(response)
    if scale.name == "seconds" and not _positive(fit, plan):
        scale = Scale("log", scale.power, scale.low, scale.high, "means of seconds would fall below zero")
        fit, pure, response = first, within(logs), logs
    noise = cell_noise(plan, pure) if kind == "replicates" else None
    error = error_term(kind, plan, fit, pure, noise is not None)
    source = pure if kind == "replicates" else fit
    residuals = Residuals(source.residuals, source.leverages, source.df, plan)
    return _Model(plan, fit, response, pure, scale, error, residuals, noise, tuple(lost), tuple(notes))


def _positive(fit: Fit, plan: Layout) -> bool:
    marginal = Marginal(fit, plan, False, None, 0)
    groups = [fit.design.terms[at].factors for at in fit.chosen]
    return all(marginal.positive(group) for group in groups if group and max(group) < len(plan.factors))


def _terms(plan: Layout, logs: Array, pure_df: int) -> tuple[ModelMatrix, list[int], list[Inestimable], list[str]]:
    """The terms that the trials can tell, and words on those that they cannot."""
    base = [intercept(len(logs)), *([block_term(plan)] if plan.blocks > 1 else [])]
    base += [factor_term(plan, (at,)) for at in range(len(plan.factors))]
    base += [slope_term(plan, at) for at in range(len(plan.slopes))]
    design = ModelMatrix(base)
    chosen, lost = _told(design, range(1, len(base)), [0])
    wanted, empty, notes = _pairs(plan, Fit(design, chosen, logs), pure_df)
    design = ModelMatrix([*base, *(factor_term(plan, pair) for pair in wanted)])
    chosen, aliased = _told(design, range(len(base), len(design.terms)), chosen)
    return design, chosen, [*lost, *empty, *aliased], notes


def _told(design: ModelMatrix, candidates: Sequence[int], known: Sequence[int]) -> tuple[list[int], list[Inestimable]]:
    """Take in term after term as long as each adds all its degrees of freedom."""
    chosen, lost = list(known), []
    for at in candidates:
        term = design.terms[at]
        if design.news(at, chosen) == term.df:
            chosen.append(at)
        else:
            lost.append(Inestimable(term.name, _confused(design, at, chosen)))
    return chosen, lost


def _confused(design: ModelMatrix, at: int, chosen: Sequence[int]) -> str:
    """With which terms of the model a term is confounded: those without which it could be told."""
    term = design.terms[at]
    others = [rival for rival in chosen if rival and design.news(at, [c for c in chosen if c != rival]) == term.df]
    names = " or ".join(design.terms[rival].name for rival in others) or "the other terms together"
    return f"in these trials it cannot be told from {names}"


def _pairs(plan: Layout, additive: Fit, pure_df: int) -> tuple[list[tuple[int, int]], list[Inestimable], list[str]]:
    """The pairs to try, those of strong factors first (effect heredity), within what the trials can pay for."""
    strength = {
        term.factors[0]: additive.own_squares(at) / term.df
        for at in additive.chosen
        if len((term := additive.design.terms[at]).factors) == 1 and term.factors[0] < len(plan.factors)
    }
    ranked = sorted(combinations(sorted(strength), 2), key=lambda pair: -min(strength[at] for at in pair))
    budget = min(MOST_COLUMNS, _budget(plan, pure_df)) - len(additive.at)
    wanted: list[tuple[int, int]] = []
    empty, unpaid = [], []
    for pair in ranked:
        first, second = (plan.factors[at] for at in pair)
        cost = (len(first.levels) - 1) * (len(second.levels) - 1)
        holes = _holes(plan, pair)
        if holes:
            empty.append(Inestimable(f"{first.name} × {second.name}", f"no good trial has {holes}"))
        elif cost > budget or len(wanted) >= MOST_PAIRS:
            unpaid.append(f"{first.name} × {second.name}")
        else:
            wanted.append(pair)
            budget -= cost
    return sorted(wanted), empty, _unpaid(unpaid)


def _budget(plan: Layout, pure_df: int) -> int:
    """How many columns leave enough to judge them by."""
    if plan.grid and pure_df >= FEWEST_DF:
        return MOST_COLUMNS
    return plan.cells + plan.blocks - 1 - (FEWEST_DF if plan.grid else plan.cells // 2)


def _holes(plan: Layout, pair: tuple[int, int]) -> str:
    """The empty combinations of two factors, in words."""
    first, second = (plan.factors[at] for at in pair)
    counts = np.zeros((len(first.levels), len(second.levels)), dtype=np.int64)
    np.add.at(counts, (first.codes, second.codes), 1)
    cells = [
        f"{first.name} {first.levels[a]} with {second.name} {second.levels[b]}" for a, b in np.argwhere(counts == 0)
    ]
    return "; ".join(cells[:3]) + (f"; and {len(cells) - 3} more" if len(cells) > 3 else "")


def _unpaid(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return [f"Left out of the model, because there are too few trials or too many terms: {shown}."]


def _table(model: _Model) -> list[AnovaRow]:
    """The lines of the analysis of variance."""
    centred = model.response - model.response.mean()
    total = float(centred @ centred)
    marginal = not (model.plan.grid and not model.plan.missing)
    rows: list[tuple[str, tuple[str, ...], int, float]] = []
    tests: list[tuple[float | None, float | None]] = []
    for at in model.fit.chosen[1:]:
        term = model.fit.design.terms[at]
        fit = tested_fit(model.fit, model.response, at, marginal)
        squares = fit.own_squares(at)
        rows.append((term.name, _names(model.plan, term), term.df, squares))
        # The blocks are taken out, not tested.
        tests.append((None, None) if term.name == "block" else _tested(model, squares, term.df, fit, at))
    residual_df, residual = model.fit.df, model.fit.sum_squares
    if model.error.kind in ("replicates", "configurations") and model.fit.df > model.pure.df:
        squares, df = max(residual - model.pure.sum_squares, 0.0), residual_df - model.pure.df
        rows.append(("higher order", (), df, squares))
        tests.append(_rest_tested(model, squares, df))
        residual_df, residual = model.pure.df, model.pure.sum_squares
    corrections = holm([p for _, p in tests])
    terms = [
        AnovaRow(name, factors, df, squares, squares / total if total else 0.0, f, p, corrected)
        for (name, factors, df, squares), (f, p), corrected in zip(rows, tests, corrections, strict=True)
    ]
    return [
        *terms,
        AnovaRow("residual", (), residual_df, residual, residual / total if total else 0.0, None, None, None),
    ]


def _names(plan: Layout, term: Term) -> tuple[str, ...]:
    every = [factor.name for factor in plan.factors] + [slope.name for slope in plan.slopes]
    return tuple(every[at] for at in term.factors)


def _tested(model: _Model, squares: float, df: int, fit: Fit, at: int) -> tuple[float | None, float | None]:
    """F and p of a term."""
    unequal = model.unequal(fit)
    if unequal is not None and squares > len(model.response) * EXACT**2:
        return unequal.tested(at, squares)
    return _compared(squares, df, model.error.spread, model.error.df, len(model.response))


def _rest_tested(model: _Model, squares: float, df: int) -> tuple[float | None, float | None]:
    """F and p of what the model leaves beyond the replicates' noise."""
    unequal = model.unequal(model.fit)
    if unequal is not None and squares > len(model.response) * EXACT**2:
        return unequal.rest_tested(squares, df, model.pure.leverages - model.fit.leverages)
    return _compared(
        squares, df, float(np.sqrt(model.pure.sum_squares / model.pure.df)), model.pure.df, len(model.response)
    )


def _compared(
    squares: float, df: int, spread: float | None, freedom: int, trials: int
) -> tuple[float | None, float | None]:
    """F and p against a common spread; without noise every effect is sure."""
    from scipy.stats import f as distribution

    if spread is None:
        return None, None
    if squares <= trials * EXACT**2:
        return 0.0, 1.0
    if spread < EXACT:
        return float("inf"), 0.0
    f = squares / df / spread**2
    return float(f), float(distribution.sf(f, df, freedom))


def _is_slope(term: Term, plan: Layout) -> bool:
    return len(term.factors) == 1 and term.factors[0] >= len(plan.factors)


def with_verdicts(
    rows: Sequence[AnovaRow], main: Sequence[Effect], trends: Sequence[Trend], together: Sequence[Interaction]
) -> list[AnovaRow]:
    """The lines with the verdicts of their comparisons; the rest of higher order has none but its F test."""
    real: set[tuple[str, ...]] = {(effect.factor,) for effect in main if effect.differs}
    real |= {(trend.factor,) for trend in trends if trend.differs}
    real |= {interaction.factors for interaction in together if interaction.differs}
    return [
        replace(row, differs=row.factors in real if row.factors else row.holm is not None and row.holm < 1 - LEVEL)
        for row in rows
    ]
