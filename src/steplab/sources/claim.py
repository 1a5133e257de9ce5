"""A claim and the verdict on it: an estimate with its 95 % interval decides, never a single number.

A claim is *confirmed* if its whole interval lies on the claimed side of a border that was set beforehand, *refuted* if
it lies on the other side, and *not decidable here* otherwise, or where the study has no replicates. Claims with several
parts share the 5 % by Šidák's bound, as every family of questions does (`steplab.analysis.statistics.differences`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.statistics.differences import LEVEL, critical
from steplab.core.trial import Level

Array = NDArray[np.float64]
Verdict = Literal["confirmed", "refuted", "not decidable here"]
CONFIRMED: Verdict = "confirmed"
REFUTED: Verdict = "refuted"
UNDECIDED: Verdict = "not decidable here"
RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; `n` independent values stand behind it."""

    value: float
    low: float
    high: float
    n: int

    @staticmethod
    def of_logs(value: float, low: float, high: float, n: int) -> Estimate:
        """A ratio from the logarithms of it and of its ends."""
        return Estimate(float(np.exp(value)), float(np.exp(low)), float(np.exp(high)), n)

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Claim:
    """An answered question: what was estimated, the verdict, and the answer in words."""

    question: str
    measure: str
    estimate: Estimate | None
    verdict: Verdict
    sentence: str


def undecided(question: str, why: str, measure: str = "", estimate: Estimate | None = None) -> Claim:
    """A question that these tables cannot answer."""
    return Claim(question, measure, estimate, UNDECIDED, why)


def mean_ratio(logs: Sequence[float] | Array, questions: int = 1) -> Estimate | None:
    """The geometric mean of ratios with Student's interval, one of several questions; None of fewer than two.

    >>> str(mean_ratio(np.log([1.9, 2.0, 2.1])))
    '2 (1.76 to 2.26)'
    """
    values = np.asarray(logs, float)
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return None
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    half = float(critical(len(values) - 1, questions)) * error
    return Estimate.of_logs(mean, mean - half, mean + half, len(values))


def mean_share(values: Sequence[float] | Array, questions: int = 1) -> Estimate | None:
    """The mean of shares with Student's interval, within 0 and 1; None of fewer than two.

    >>> str(mean_share([0.7, 0.8, 0.75]))
    '0.75 (0.626 to 0.874)'
    """
    known = np.asarray(values, float)
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return None
    mean, error = float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known)))
    half = float(critical(len(known) - 1, questions)) * error
    return Estimate(mean, max(mean - half, 0.0), min(mean + half, 1.0), len(known))


def resampled(values: Array, questions: int = 1) -> Estimate | None:
    """The mean of independent values with its percentile interval from 2000 resamples; seeded.

    >>> str(resampled(np.ones(20)))
    '1 (1 to 1)'
    """
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return None
    rows = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    outside = (1 - LEVEL ** (1 / questions)) / 2
    low, high = np.quantile(values[rows].mean(axis=1), [outside, 1 - outside])
    return Estimate(float(values.mean()), float(low), float(high), len(values))


def above(estimate: Estimate, border: float) -> Verdict:
    """The verdict on the claim that something lies above a border.

    >>> above(Estimate(2.0, 1.5, 2.5, 3), 1.0), above(Estimate(2.0, 0.9, 2.5, 3), 1.0)
    ('confirmed', 'not decidable here')
    """
    return CONFIRMED if estimate.low > border else REFUTED if estimate.high < border else UNDECIDED


def below(estimate: Estimate, border: float) -> Verdict:
    """The verdict on the claim that something lies below a border."""
    return CONFIRMED if estimate.high < border else REFUTED if estimate.low > border else UNDECIDED


def both(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a claim of several parts: all must hold, and one that does not refutes it.

    >>> both(["confirmed", "not decidable here"]), both(["confirmed", "refuted"])
    ('not decidable here', 'refuted')
    """
    return REFUTED if REFUTED in verdicts else CONFIRMED if set(verdicts) == {CONFIRMED} else UNDECIDED


def medians(trials: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """The medians of columns, a row for each combination of levels, in their order."""
    return trials.groupby(list(by), as_index=False)[list(columns)].median()


def blocks(trials: pd.DataFrame, value: str, factor: str, pair: tuple[Level, Level], cells: Sequence[str]) -> Array:
    """For each replicate the mean log ratio of a column between two levels, over the cells that have both.

    A replicate is a block: what it shares (a slow hour) is in both levels and cancels, and blocks are independent.
    """
    index = ["replicate", *(cell for cell in cells if cell in trials.columns)]
    wide = trials.pivot_table(value, index, factor, aggfunc="median", dropna=True)
    if not set(pair) <= set(wide.columns):
        return np.zeros(0)
    ratios = (wide[pair[0]] / wide[pair[1]]).dropna()
    return np.asarray(ratios.map(math.log).groupby("replicate").mean(), float)


def efficiency(trials: pd.DataFrame, cells: Sequence[str], workers: str = "workers") -> pd.DataFrame:
    """The trials of several workers with `efficiency`: the step of one worker in the same block over their own.

    The batch of each worker stays the same, so N workers do N times the work (weak scaling; MMU thesis, chapter 3).
    """
    keys = ["replicate", *(cell for cell in cells if cell in trials.columns)]
    alone = medians(trials[trials[workers] == 1], keys, ["t_iter"]).rename(columns={"t_iter": "t_alone"})
    joined = trials[trials[workers] > 1].merge(alone, on=keys)
    return joined.assign(efficiency=joined["t_alone"] / joined["t_iter"])
