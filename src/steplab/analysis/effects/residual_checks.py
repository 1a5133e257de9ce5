"""Looks at the residuals: normal, evenly spread, independent in the order of running, without outliers.

A look alarms only when the departure is both sure (p below 0.01) and large enough to matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.effects.findings import Check
from steplab.analysis.effects.layout import Layout

Array = NDArray[np.float64]
SURE = 0.01
UNEVEN = 2.0  # ratio of spreads that begins to matter
CORRELATED = 0.2
MOST_FOR_SHAPIRO = 5000
FEWEST_DF = 6
NAMED = 5  # outliers that the sentence names


@dataclass(frozen=True)
class Residuals:
    """Residuals with what is known about them."""

    values: Array
    leverages: Array
    df: int
    plan: Layout

    def studentised(self) -> Array:
        """Residuals in units of their own standard error, each judged by the others (externally studentised)."""
        room = np.clip(1.0 - self.leverages, 1e-9, None)
        total = float(self.values @ self.values)
        others = np.clip(total - self.values**2 / room, 1e-300, None) / max(self.df - 1, 1)
        # A trial alone in its cell has no residual.
        scaled: Array = np.where(room > 1e-6, self.values / np.sqrt(room * others), 0.0)
        return scaled


def residual_checks(residuals: Residuals) -> list[Check]:
    """The four looks, or none where there is nothing to look at."""
    if residuals.df < FEWEST_DF or not float(np.abs(residuals.values).max()) > 1e-9:
        return []
    checks = [_outliers(residuals), _normality(residuals), _equal_variance(residuals), _independence(residuals)]
    return [check for check in checks if check is not None]


def _outliers(residuals: Residuals) -> Check:
    """Bonferroni's test of the largest studentised residuals."""
    from scipy.stats import t

    sizes = np.abs(residuals.studentised())
    p = np.minimum(2 * t.sf(sizes, residuals.df - 1) * len(sizes), 1.0)
    far = [int(at) for at in np.argsort(p, kind="stable") if p[at] < SURE]
    if not far:
        return Check("outliers", True, float(p.min()), "No trial lies far from the others of its configuration.")
    ids = tuple(str(residuals.plan.table["trial"].iloc[at]) for at in far)
    named = ", ".join(ids[:NAMED]) + (f" and {len(ids) - NAMED} more" if len(ids) > NAMED else "")
    lies = "1 trial lies" if len(ids) == 1 else f"{len(ids)} trials lie"
    sentence = f"{lies} far from the rest of the same configuration ({named}): look at them, run them again."
    return Check("outliers", False, float(p.min()), sentence, ids)


def _normality(residuals: Residuals) -> Check:
    from scipy.stats import kurtosis, shapiro, skew, skewtest

    values = residuals.studentised()
    test = shapiro if len(values) <= MOST_FOR_SHAPIRO else skewtest
    p = float(test(values).pvalue)
    bend, tails = float(skew(values)), float(kurtosis(values))
    if p >= SURE or (abs(bend) < 0.5 and abs(tails) < 1.0):
        return Check("normality", True, p, f"The residuals look normal enough (p = {p:.2g}).")
    shape = "a tail of slow trials" if bend > 0.5 else "a tail of fast trials" if bend < -0.5 else "heavy tails"
    hint = "means over many trials are safe, single configurations are not; compare medians and add replicates"
    return Check("normality", False, p, f"The residuals have {shape} (p = {p:.2g}): {hint}.")


def _equal_variance(residuals: Residuals) -> Check | None:
    """Brown and Forsythe's test of the spread by each factor's levels, corrected for the number of factors."""
    from scipy.stats import levene

    values = residuals.values / np.sqrt(np.clip(1.0 - residuals.leverages, 1e-9, None))
    spread_by_factor = []
    for factor in residuals.plan.factors:
        groups = [values[factor.codes == code] for code in range(len(factor.levels))]
        if min(len(group) for group in groups) < 3:
            continue
        spreads = [float(np.median(np.abs(group - np.median(group)))) for group in groups]
        p = float(levene(*groups, center="median").pvalue) * len(residuals.plan.factors)
        ratio = max(spreads) / max(min(spreads), 1e-300)
        spread_by_factor.append((p, ratio, factor.name, factor.levels[int(np.argmax(spreads))]))
    if not spread_by_factor:
        return None
    p, ratio, name, level = min(spread_by_factor)
    if p >= SURE or ratio < UNEVEN:
        return Check("equal variance", True, min(p, 1.0), "The noise is about the same at all levels.")
    sentence = (
        f"The noise is {ratio:.1f} times as large at {name} {level} as at its quietest level: "
        "intervals of replicates take that into account; more replicates or iterations there would help most."
    )
    return Check("equal variance", False, p, sentence)


def _independence(residuals: Residuals) -> Check | None:
    """Neighbours in the order of running, and a drift over it."""
    from scipy.stats import norm, spearmanr

    if "started" not in residuals.plan.table:
        return None
    order = np.argsort(residuals.plan.table["started"].to_numpy(), kind="stable")
    values = residuals.values[order]
    if len(values) < 12:
        return None
    neighbours = float(values[1:] @ values[:-1] / (values @ values))
    p_neighbours = float(2 * norm.sf(abs(neighbours) * np.sqrt(len(values))))
    drift = spearmanr(np.arange(len(values)), values)
    p = min(1.0, 2 * min(p_neighbours, float(drift.pvalue)))
    hint = "keep the order random, quieten the machine, or trust only differences larger than this noise"
    if p < SURE and abs(float(drift.statistic)) >= CORRELATED:
        way = "slower" if drift.statistic > 0 else "faster"
        return Check("independence", False, p, f"Trials became {way} in the course of the study (p = {p:.2g}): {hint}.")
    if p < SURE and neighbours >= CORRELATED:
        text = f"Trials that ran one after another resemble each other (correlation {neighbours:.2f}): {hint}."
        return Check("independence", False, p, text)
    return Check("independence", True, p, "Neighbours in the order of running do not resemble each other.")
