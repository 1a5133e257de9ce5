"""Whether another precision than float32 pays, and why: the same configuration in both, below the roofs of both.

Trials are paired by configuration and replicate, as those of frameworks are (`frameworks`), and all such pairs of
configurations are one family of questions. The reason is the machine's: how fast its products are in each precision at
most, and how much of that the network's own products reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from steplab.analysis.configurations import Configurations, without_noise
from steplab.analysis.framework_measures import STEP_TIME, TIME
from steplab.analysis.frameworks import Estimate, judged_pair, paired, with_levels
from steplab.analysis.pairs import Pairs, inverse
from steplab.analysis.statistics.differences import Difference
from steplab.analysis.summary import Group
from steplab.core.trial import Level
from steplab.core.units import count, ends

FACTOR, USUAL = "precision", "float32"


@dataclass(frozen=True)
class Reached:
    """The roof of products in a precision, in FLOP/s, and the share of it that the network's products reach."""

    roof: float
    share: float


@dataclass(frozen=True)
class PrecisionGain:
    """A configuration in another precision, compared with the same one in float32."""

    precision: str
    factors: dict[str, Level] | None  # all but the precision; None: the mean over all configurations
    ratio: float  # of step times: below 1 it is faster
    low: float | None
    high: float | None
    differs: bool
    usual: Reached | None  # in float32; None where the roofs were not measured
    reached: Reached | None

    @property
    def pays(self) -> bool | None:
        """Whether a step is faster; None where that is not sure."""
        return self.ratio < 1 if self.differs else None

    @property
    def verdict(self) -> str:
        """In a word or three."""
        return {True: "pays", False: "does not pay", None: "not told apart"}[self.pays]

    @property
    def roof_gain(self) -> float | None:
        """How many times as fast products are at most."""
        return None if self.usual is None or self.reached is None else self.reached.roof / self.usual.roof

    def sentence(self, varied: Sequence[str]) -> str:
        """The finding with its reason; of the factors those that vary are named."""
        if self.factors is None:
            takes = self.takes.replace("a step", f"a step in {self.precision}")
            return f"On average over all configurations, {takes}."
        named = ", ".join(f"{name} {self.factors[name]}" for name in varied if name in self.factors)
        where = f" with {named}" if named else ""
        verdict = {
            True: f"{self.precision} pays{where}",
            False: f"{self.precision} does not pay{where}",
            None: f"Whether {self.precision} pays{where} is not beyond doubt",
        }[self.pays]
        return f"{verdict}: {self.takes}. {self.because}"

    @property
    def takes(self) -> str:
        """How long a step takes."""
        span = f" ({ends(self.low, self.high)})" if self.low is not None and self.high is not None else ""
        return f"a step takes {self.ratio:.2f}{span} times as long as in {USUAL}"

    @property
    def because(self) -> str:
        """Why, as far as the machine's roofs tell."""
        gain, usual, reached = self.roof_gain, self.usual, self.reached
        if gain is None or usual is None or reached is None:
            return f"Why is not known: `steplab roofline` measures this machine's products in {USUAL} and bfloat16."
        both = f"{count(reached.roof)}FLOP/s against {count(usual.roof)}FLOP/s"
        rates = f"{gain:.2g} times as fast in {self.precision} ({both})"
        shares = f"{reached.share:.0%} of that roof, in {USUAL} {usual.share:.0%} of theirs"
        if self.pays is False and gain >= 1:
            lost = "casts, or products without kernels for it, cost more than the faster ones save"
            return f"Although this machine's products can be {rates}, here they reach {shares}: {lost}."
        if self.pays and gain < 1:
            return f"Although this machine's largest products are {rates}; here they reach {shares}."
        if self.pays is not None:
            return f"Because this machine's products are {rates}; here they reach {shares}."
        return f"This machine's products can be {rates}; here they reach {shares}."


@dataclass(frozen=True)
class PrecisionVerdicts:
    """The verdicts on throughputs in another precision and in float32.

    `pairs` are by the positions of two configurations; `means` over several configurations, by precision.
    """

    pairs: dict[tuple[int, int], Difference]
    means: dict[str, Difference]


def precision_verdicts(cells: Configurations, trials: pd.DataFrame, factors: Sequence[str]) -> PrecisionVerdicts:
    """Judge every configuration that was measured in both, and their mean."""
    ok = trials[trials["status"] == "ok"] if len(trials) else trials
    if not len(ok) or FACTOR not in ok or FACTOR not in cells.keys or ok[FACTOR].nunique() < 2:
        return PrecisionVerdicts({}, {})
    shared = [name for name in cells.keys if name in ok and name != FACTOR]
    rows = with_levels(ok, shared).assign(variant=ok[FACTOR].astype(str))
    estimates = [pair for pair in paired(rows, shared, TIME) if pair.second == USUAL]
    single = [pair for pair in estimates if pair.about is not None]
    means = [pair for pair in estimates if pair not in single]  # a family of its own
    unsure, places = without_noise(ok, factors), _places(cells)
    pairs = {both: _speed(pair, len(single), unsure) for pair in single if (both := _both(pair, places)) is not None}
    return PrecisionVerdicts(pairs, {pair.first: _speed(pair, len(means), unsure) for pair in means})


def _speed(pair: Estimate, questions: int, unsure: bool) -> Difference:
    return judged_pair(STEP_TIME, pair, questions, unsure, more_is_better=False).speed


def _places(cells: Configurations) -> dict[str, dict[str, int]]:
    """By precision, then by the other levels: the position of a configuration."""
    places: dict[str, dict[str, int]] = {}
    for at, levels in enumerate(cells.factors):
        others = {name: level for name, level in levels.items() if name != FACTOR}
        places.setdefault(str(levels.get(FACTOR)), {})[str(others)] = at
    return places


def _both(pair: Estimate, places: Mapping[str, Mapping[str, int]]) -> tuple[int, int] | None:
    first, second = (places.get(name, {}) for name in (pair.first, pair.second))
    key = str(pair.about)
    return (first[key], second[key]) if key in first and key in second else None


def precision_gains(
    cells: Configurations, groups: Sequence[Group], pairs: Pairs, means: Mapping[str, Difference]
) -> list[PrecisionGain]:
    """The means, then every configuration that was measured in both; what gains most comes first."""
    gains = [
        _gain(groups[at], groups[other], inverse(pairs.between(at, other)))
        for at, levels in enumerate(cells.factors)
        if levels.get(FACTOR, USUAL) != USUAL
        for other in cells.alike(at, FACTOR)
        if cells.factors[other].get(FACTOR) == USUAL
    ]
    every = [_gained(precision, None, inverse(speed)) for precision, speed in means.items()]
    return every + sorted(gains, key=lambda gain: gain.ratio)


def _gain(group: Group, usual: Group, time: Difference) -> PrecisionGain:
    others = {name: level for name, level in group.factors.items() if name != FACTOR}
    return _gained(str(group.factors[FACTOR]), others, time, _reached(usual), _reached(group))


def _gained(
    precision: str,
    factors: dict[str, Level] | None,
    time: Difference,
    usual: Reached | None = None,
    reached: Reached | None = None,
) -> PrecisionGain:
    return PrecisionGain(precision, factors, time.ratio, time.low, time.high, time.differs, usual, reached)


def _reached(group: Group) -> Reached | None:
    used = group.utilisation
    if used is None or used.roof_flops_per_s is None or used.share is None:
        return None
    return Reached(used.roof_flops_per_s, used.share.value)


def precision_sentences(gains: Sequence[PrecisionGain], varied: Sequence[str]) -> list[str]:
    """How often it pays, and the two ends: where it gains most, and where it costs most; what is sure comes first."""
    single = [gain for gain in gains if gain.factors is not None]
    if len(single) < 2:
        return [gain.sentence(varied) for gain in single]
    pays, costs = (sum(gain.pays is wanted for gain in single) for wanted in (True, False))
    means = [gain.sentence(varied) for gain in gains if gain.factors is None]
    sure = f"In {pays} of {len(single)} configurations it surely pays, in {costs} it surely does not."
    best = next((gain for gain in single if gain.differs), single[0])
    others = [gain for gain in reversed(single) if gain is not best]
    worst = next((gain for gain in others if gain.differs), others[0])
    return [" ".join([*means, sure]), *(gain.sentence(varied) for gain in (best, worst))]
