"""The same configuration in several frameworks: paired ratios, and which of the differences are real.

Trials are paired by configuration and replicate (the replicates are blocks in time), ratios are taken on the log
scale. A configuration's own few pairs say little of their spread, so that is moderated by that of all configurations
of the two frameworks (`variances`). Many comparisons find differences by chance: what counts as real is Holm's choice
(Scand. J. Statist. 6, 1979) among all comparisons of a measure, at 5 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.configurations import NO_NOISE, missing, without_noise
from steplab.analysis.statistics.holm import holm
from steplab.analysis.statistics.variances import moderated
from steplab.core.trial import Level, plain_level

Array = NDArray[np.float64]
TIME = "t_iter"
# What is compared: column, how it is called, whether more of it is better.
MEASURES = (
    ("throughput", "throughput", True),
    (TIME, "step time", False),  # where the batch size, and so the throughput, is not known
    ("time_to_target_s", "time to accuracy", False),
    ("memory_bytes", "memory", False),
)
LEVEL = 0.95
MOST_VARIANTS = 12
# Share of the degrees of freedom of all configurations that counts for one of them: the spreads of a handful of pairs
# tell badly how much they differ among themselves (chosen by simulation, `benchmarks/coverage.py`).
OTHERS = 0.15
# Why a comparison without a p-value shows nothing.
SINGLE = "a single pair, which shows nothing"
NO_SPREAD = NO_NOISE[0].lower() + NO_NOISE[1:].rstrip(".")


@dataclass(frozen=True)
class Comparison:
    """How `first` compares with `second`: `ratio` of a measure with its 95 % interval."""

    measure: str
    first: str
    second: str
    factors: dict[str, Level] | None  # of the configuration; None: over all of them
    ratio: float
    low: float | None
    high: float | None
    pairs: int
    p: float | None
    real: bool  # after Holm's correction
    better: str  # the better one if the difference is real, else ""
    sentence: str


def compare_frameworks(trials: pd.DataFrame, factors: Sequence[str]) -> list[Comparison]:
    """Every pair of frameworks: over all configurations they share, then for each of them."""
    ok = trials[trials["status"] == "ok"] if len(trials) else trials
    if not len(ok) or "framework" not in ok or ok["framework"].nunique() < 2:
        return []
    unsure = without_noise(ok, factors)
    shared, ok = _variants(ok, factors)
    comparisons: list[Comparison] = []
    for rows, column, name, more in _measures(ok):
        family = _measure(rows, shared, column, name)
        if unsure:
            family = [replace(comparison, low=None, high=None, p=None) for comparison in family]
        comparisons += _told_apart(family, more, NO_SPREAD if unsure else SINGLE)
    return comparisons


def _variants(ok: pd.DataFrame, factors: Sequence[str]) -> tuple[list[str], pd.DataFrame]:
    """The factors that all frameworks have, and the trials with their framework named with its own factors."""
    known = [name for name in factors if name in ok and name != "framework"]
    own = [name for name in known if ok[name].isna().any()]
    shared = [name for name in known if name not in own]
    label = ok["framework"].astype(str)
    for name in own:
        label = label + ok[name].map(lambda level, name=name: "" if missing(level) else f" {name}={level}").astype(str)
    return shared, ok.assign(variant=label)


def _measures(ok: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, str, str, bool]]:
    """What was measured: the trials, the column, its name, and whether more of it is better."""
    known = [column for column, *_ in MEASURES if column in ok and ok[column].notna().any()]
    for column, name, more in MEASURES:
        if column in known and (column != TIME or "throughput" not in known):
            yield ok, column, name, more
    # Joules from different sources are different quantities: each source is compared within itself.
    if "energy_j" in ok and ok["energy_j"].notna().any():
        for source, rows in ok[ok["energy_j"].notna()].groupby("energy_provenance"):
            yield rows, "energy_j", f"energy of a trial ({source})", False


def _measure(ok: pd.DataFrame, shared: list[str], column: str, name: str) -> list[Comparison]:
    values = pd.to_numeric(ok[column], errors="coerce")
    rows = ok.assign(value=np.log(values.where(values > 0)))
    variants = sorted(rows["variant"].unique())[:MOST_VARIANTS]
    table = rows.groupby([*shared, "replicate", "variant"], sort=False)["value"].mean().unstack("variant")
    comparisons: list[Comparison] = []
    for first, second in combinations(variants, 2):
        if first.split(" ")[0] != second.split(" ")[0] and {first, second} <= set(table.columns):
            difference = (table[first] - table[second]).dropna()
            if len(difference):
                comparisons += _pair(name, first, second, shared, difference)
    return comparisons


def _pair(name: str, first: str, second: str, shared: list[str], difference: pd.Series[float]) -> list[Comparison]:
    """Two frameworks: over all configurations, then one by one."""
    grouped = difference.groupby(level=shared, sort=False, dropna=False) if shared else difference.groupby(lambda _: 0)
    means, sizes = grouped.mean(), np.asarray(grouped.size(), dtype=float)
    noise = moderated(np.asarray(grouped.var(ddof=1), dtype=float), sizes - 1)
    errors = np.sqrt(noise.variance / sizes)
    freedom_each = np.minimum(noise.freedom, sizes - 1 + OTHERS * noise.pool)
    if len(means) == 1:
        own = float(means.iloc[0]), float(errors[0]), float(freedom_each[0]), len(difference)
        return [_comparison(name, first, second, None, *own)]
    each = [
        _comparison(name, first, second, _levels(shared, key), mean, error, freedom, int(n))
        for key, mean, error, freedom, n in zip(
            means.index, means.tolist(), errors.tolist(), freedom_each.tolist(), sizes.tolist(), strict=True
        )
    ]
    # The mean over configurations; what varies between them counts as doubt, as they stand for others.
    error = float(means.std(ddof=1)) / np.sqrt(len(means))
    return [
        _comparison(name, first, second, None, float(means.mean()), error, len(means) - 1, len(difference)),
        *each,
    ]


def _levels(shared: list[str], key: object) -> dict[str, Level]:
    levels = key if isinstance(key, tuple) else (key,)
    return {name: plain_level(level) for name, level in zip(shared, levels, strict=True)}


def _comparison(
    name: str, first: str, second: str, levels: dict[str, Level] | None,
    mean: float, error: float, freedom: float, pairs: int,
) -> Comparison:  # fmt: skip
    from scipy.special import stdtr, stdtrit

    low = high = p = None
    if freedom > 0 and np.isfinite(error):
        half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
        low, high = float(np.exp(mean - half)), float(np.exp(mean + half))
        # Without noise any difference is sure; and none is none.
        p = float(2 * stdtr(freedom, -abs(mean) / error)) if error > 0 else float(abs(mean) < 1e-12)
    return Comparison(name, first, second, levels, float(np.exp(mean)), low, high, pairs, p, False, "", "")


def _told_apart(comparisons: list[Comparison], more_is_better: bool, untold: str) -> list[Comparison]:
    """Mark what is real: overall comparisons and those of configurations are two families of questions."""
    judged: list[Comparison] = []
    for family in ([c for c in comparisons if c.factors is None], [c for c in comparisons if c.factors is not None]):
        corrected = holm([pair.p for pair in family])
        real = [p is not None and p <= 1 - LEVEL for p in corrected]
        judged += [_judged(pair, sure, more_is_better, untold) for pair, sure in zip(family, real, strict=True)]
    return judged


def _judged(pair: Comparison, real: bool, more_is_better: bool, untold: str) -> Comparison:
    better = (pair.first if (pair.ratio > 1) == more_is_better else pair.second) if real else ""
    doubt = f" ({pair.low:.2f} to {pair.high:.2f})" if pair.low is not None and pair.high is not None else ""
    where = "" if pair.factors is None else f" with {', '.join(f'{k} {v}' for k, v in pair.factors.items())}"
    verdict = "a real difference" if real else "not a difference that the noise leaves beyond doubt"
    if pair.p is None:
        verdict = untold
    text = f"{pair.measure.capitalize()} of {pair.first} is {pair.ratio:.2f}{doubt} times that of {pair.second}{where}"
    return replace(pair, real=real, better=better, sentence=f"{text}: {verdict}.")
