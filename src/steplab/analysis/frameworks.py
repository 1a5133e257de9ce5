"""The same configuration in several frameworks: paired ratios, and which of the differences are real.

The ratio is that of the medians which every table shows. How far it may be off comes from trials paired by
configuration and replicate (the replicates are blocks in time), on the log scale. A configuration's own few pairs say
little of their spread, so that is moderated by that of all configurations of the two frameworks (`variances`). Over
all configurations the ratios are averaged with equal weights, as effects are. What is real is decided by the one rule
(`statistics.differences`): overall comparisons of a measure are a family, those of single configurations another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.configurations import NO_NOISE, missing, whole_again, without_noise
from steplab.analysis.framework_measures import STEP_TIME, THROUGHPUT, TIME, measured
from steplab.analysis.statistics.differences import Difference, critical, including
from steplab.analysis.statistics.variances import joint_freedom, moderated
from steplab.core.trial import Level, plain_level
from steplab.core.units import ends

if TYPE_CHECKING:
    from pandas.core.groupby import SeriesGroupBy

Array = NDArray[np.float64]
NONE = ""  # in place of a level, where a factor does not apply
MOST_VARIANTS = 12  # that are compared in pairs: the fastest; the others are named
# Share of the degrees of freedom of all configurations that counts for one of them: the spreads of a handful of pairs
# tell badly how much they differ among themselves (chosen by simulation, `benchmarks/coverage.py`).
OTHERS = 0.15
# Why a comparison without an interval shows nothing.
SINGLE = "a single pair, which shows nothing"
NO_SPREAD = NO_NOISE[0].lower() + NO_NOISE[1:].rstrip(".")


@dataclass(frozen=True)
class Comparison:
    """How `first` compares with `second`: `ratio` of a measure with the 95 % interval that decides about it.

    The interval holds for all comparisons of its family at once.
    """

    measure: str
    first: str
    second: str
    factors: dict[str, Level] | None  # of the configuration; None: over all of them
    ratio: float
    low: float | None
    high: float | None
    pairs: int
    configurations: int  # that both were measured in
    real: bool
    better: str  # the better one if the difference is real, else ""
    sentence: str
    about: dict[str, Level] | None = None  # the levels of the only configuration that is compared

    @property
    def speed(self) -> Difference:
        """The comparison as a ratio of speeds: less time is more speed."""
        if self.measure != STEP_TIME:
            return Difference(self.ratio, self.low, self.high, self.real)
        low, high = (None if end is None else 1 / end for end in (self.high, self.low))
        return Difference(1 / self.ratio, low, high, self.real)


def speed_measure(comparisons: Sequence[Comparison]) -> str:
    """What the speeds of frameworks are told by: the throughput, or the step time where no batch size is known."""
    return THROUGHPUT if any(pair.measure == THROUGHPUT for pair in comparisons) else STEP_TIME


@dataclass(frozen=True)
class Estimate:
    """A log ratio of medians, and the paired one with its standard error: infinite where nothing tells it."""

    first: str
    second: str
    factors: dict[str, Level] | None
    log: float
    paired: float
    error: float
    freedom: float
    pairs: int
    configurations: int
    about: dict[str, Level] | None = None  # the levels of the only configuration


@dataclass(frozen=True)
class FrameworkPairs:
    """The comparisons, and the slowest variants, which are compared with nothing where there are very many."""

    comparisons: list[Comparison]
    left_out: tuple[str, ...] = ()


def compare_frameworks(trials: pd.DataFrame, factors: Sequence[str]) -> list[Comparison]:
    """Every pair of frameworks: over all configurations they share, then for each of them."""
    return framework_pairs(trials, factors).comparisons


def framework_pairs(trials: pd.DataFrame, factors: Sequence[str]) -> FrameworkPairs:
    """The same, with the variants that were left out."""
    ok = trials[trials["status"] == "ok"] if len(trials) else trials
    if not len(ok) or "framework" not in ok or ok["framework"].nunique() < 2:
        return FrameworkPairs([])
    unsure = without_noise(ok, factors)
    shared, ok = _variants(ok, factors)
    names = _fastest_first(ok)
    left_out, ok = tuple(names[MOST_VARIANTS:]), ok[ok["variant"].isin(names[:MOST_VARIANTS])]
    comparisons: list[Comparison] = []
    for measure in measured(ok, shared):
        estimates = paired(measure.trials, shared, measure.column)
        # Averages and single configurations are two families of questions.
        for single in (False, True):
            family = [pair for pair in estimates if (pair.factors is not None) == single]
            asked = len(family)
            comparisons += [judged_pair(measure.name, pair, asked, unsure, measure.more_is_better) for pair in family]
    return FrameworkPairs(comparisons, left_out)


def _fastest_first(ok: pd.DataFrame) -> list[str]:
    """The variants by their typical speed, for the choice of those that are compared."""
    known = THROUGHPUT in ok and ok[THROUGHPUT].notna().any()
    medians = ok.groupby("variant")[THROUGHPUT if known else TIME].median()
    return [str(name) for name in medians.sort_values(ascending=not known, kind="stable").index]


def _variants(ok: pd.DataFrame, factors: Sequence[str]) -> tuple[list[str], pd.DataFrame]:
    """The factors that all frameworks have, and the trials with their framework named with its own factors."""
    known = [name for name in factors if name in ok and name != "framework"]
    frameworks = ok["framework"].astype(str)
    own = [name for name in known if not ok[name].notna().groupby(frameworks).any().all()]
    shared = [name for name in known if name not in own]
    ok = with_levels(ok, known)
    label = frameworks
    for name in own:
        label = label + ok[name].map(lambda level, name=name: "" if level == NONE else f" {name}={level}").astype(str)
    return shared, ok.assign(variant=label)


def with_levels(ok: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The trials with a level for a factor that does not apply, so that it is no reason to leave a trial out."""
    partial = [name for name in names if ok[name].isna().any()]
    filled = {name: [NONE if missing(level) else level for level in whole_again(ok[name].tolist())] for name in partial}
    return ok.assign(**{name: pd.Series(levels, index=ok.index, dtype=object) for name, levels in filled.items()})


def paired(ok: pd.DataFrame, shared: list[str], column: str) -> list[Estimate]:
    """Every pair of variants, in pairs of trials that share everything else; `variant` is a column."""
    values = pd.to_numeric(ok[column], errors="coerce")
    rows = ok.assign(value=np.log(values.where(values > 0)))
    variants = sorted(rows["variant"].unique())
    table = rows.groupby([*shared, "replicate", "variant"], sort=False)["value"].mean().unstack("variant")
    estimates: list[Estimate] = []
    for first, second in combinations(variants, 2):
        if {first, second} <= set(table.columns):
            both = table[[first, second]].dropna()
            if len(both):
                estimates += _pair(first, second, shared, table, both)
    return estimates


def _pair(first: str, second: str, shared: list[str], table: pd.DataFrame, both: pd.DataFrame) -> list[Estimate]:
    """Two frameworks: over all configurations, then one by one."""
    grouped = _by_configuration(both[first] - both[second], shared)
    means, sizes = grouped.mean(), np.asarray(grouped.size(), dtype=float)
    # The medians are those of all trials, as the tables have them.
    medians = [_by_configuration(table[name], shared).median().reindex(means.index) for name in (first, second)]
    logs = np.asarray(medians[0] - medians[1], dtype=np.float64)
    noise = moderated(np.asarray(grouped.var(ddof=1), dtype=float), sizes - 1)
    errors = np.sqrt(noise.variance / sizes)
    freedom = np.minimum(noise.freedom, sizes - 1 + OTHERS * noise.pool)
    paired = np.asarray(means, dtype=np.float64)
    every = _over_all(first, second, logs, paired, errors, freedom, noise.pool, len(both))
    if len(means) == 1:
        return [replace(every, about=_levels(shared, means.index[0]))]
    each = [_levels(shared, key) for key in means.index]
    columns = zip(each, logs.tolist(), paired.tolist(), errors.tolist(), freedom.tolist(), sizes, strict=True)
    return [
        every,
        *(
            Estimate(first, second, levels, log, mean, error, df, int(n), 1, levels)
            for levels, log, mean, error, df, n in columns
        ),
    ]


def _by_configuration(values: pd.Series[float], shared: list[str]) -> SeriesGroupBy[float, Any]:
    return values.groupby(level=shared, sort=False, dropna=False) if shared else values.groupby(lambda _: 0)


def _over_all(
    first: str, second: str, logs: Array, paired: Array, errors: Array, freedom: Array, pool: float, pairs: int
) -> Estimate:
    """The mean over the configurations, with the error that the replicates tell.

    Where there is one replicate, what varies between configurations is the only sign of noise.
    """
    n = len(logs)
    if np.isfinite(errors).all():
        error = float(np.sqrt((errors**2).sum())) / n
        df = float(joint_freedom(errors**2, freedom, max(pool, 1.0))) if n > 1 else float(freedom[0])
    else:
        error = float(np.std(paired, ddof=1)) / np.sqrt(n) if n > 1 else np.inf
        df = float(n - 1)
    return Estimate(first, second, None, float(logs.mean()), float(paired.mean()), error, df, pairs, n)


def _levels(shared: list[str], key: object) -> dict[str, Level]:
    levels = () if not shared else key if isinstance(key, tuple) else (key,)
    return {name: plain_level(level) for name, level in zip(shared, levels, strict=True) if level != NONE}


def judged_pair(measure: str, pair: Estimate, questions: int, unsure: bool, more_is_better: bool) -> Comparison:
    """The verdict on one of a family of questions."""
    known = not unsure and pair.freedom > 0 and np.isfinite(pair.error)
    half = float(critical(pair.freedom, questions)) * pair.error if known else None
    judged = including(pair.log, pair.paired, half)
    better = (pair.first if (judged.ratio > 1) == more_is_better else pair.second) if judged.differs else ""
    verdict = "a real difference" if judged.differs else "not a difference that the noise leaves beyond doubt"
    if not known:
        verdict = NO_SPREAD if unsure else SINGLE
    doubt = f" ({ends(judged.low, judged.high)})" if judged.low is not None and judged.high is not None else ""
    where = "" if pair.factors is None else f" with {', '.join(f'{k} {v}' for k, v in pair.factors.items())}"
    text = f"{measure.capitalize()} of {pair.first} is {judged.ratio:.2f}{doubt} times that of {pair.second}{where}"
    return Comparison(
        measure, pair.first, pair.second, pair.factors, judged.ratio, judged.low, judged.high, pair.pairs,
        pair.configurations, judged.differs, better, f"{text}: {verdict}.", pair.about,
    )  # fmt: skip
