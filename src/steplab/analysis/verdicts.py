"""Every verdict of a study in one object: what differs, by one rule, from which all sentences and tables take it.

Questions that coincide have one verdict. The effect of the frameworks is that of their pairs; where only one factor
varies, its effects are comparisons of single configurations, speed-ups among them; the causes of a loss are given only
where the efficiency beside it leaves 100 % out. So no two sentences of an answer can contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from steplab.analysis.configurations import Configurations
from steplab.analysis.confounded_factors import Independence, independence
from steplab.analysis.effects.analysis import designed, with_verdicts
from steplab.analysis.effects.findings import Designed, Effect
from steplab.analysis.effects.layout import readable
from steplab.analysis.framework_verdicts import single_configurations
from steplab.analysis.frameworks import Comparison, framework_pairs, speed_measure
from steplab.analysis.pairs import Pairs, speedups, verdict_of
from steplab.analysis.precision import precision_verdicts
from steplab.analysis.ranking import Ranking, ranking
from steplab.analysis.scaling.fair_baseline import FairComparison, fair_comparisons, fair_ratios
from steplab.analysis.statistics.differences import ROUNDING, Difference, critical
from steplab.analysis.statistics.intervals import median_variance
from steplab.analysis.summary import Group

MOST_REPLICATES = 200  # more are no advice


@dataclass(frozen=True)
class Visible:
    """From which ratio on differences are seen; None where nothing tells the noise."""

    configurations: float | None = None  # of two single configurations, at least
    typical: float | None = None  # of two typical ones
    effect: float | None = None  # of a factor's levels, averaged over the design, at least
    replicates: int | None = None  # that a configuration has
    halving: int | None = None  # replicates that would halve the difference of two configurations


@dataclass(frozen=True)
class Verdicts:
    """What differs in a study, and from where on a difference would be seen."""

    pairs: Pairs  # of single configurations
    designed: Designed  # the effects of factors
    frameworks: list[Comparison]
    ranking: Ranking | None
    fair: list[FairComparison]  # several workers against one on the same cores
    visible: Visible
    independence: Independence = field(default_factory=Independence)
    precision_means: Mapping[str, Difference] = field(default_factory=dict)  # of throughputs, against float32

    @property
    def fastest(self) -> list[Group]:
        """The configuration with the highest throughput, then those that cannot be told from it."""
        return [self.pairs.groups[at] for at in self.pairs.equal_to_best()]

    @property
    def real_factors(self) -> frozenset[str]:
        """The factors that have an effect beyond doubt, alone or by their power."""
        real = {row.factors[0] for row in self.designed.anova if row.differs and len(row.factors) == 1}
        return frozenset(real | ({"framework"} if any(_framework_pairs(self.frameworks, real=True)) else set()))


def verdicts(cells: Configurations, groups: Sequence[Group], trials: pd.DataFrame, factors: Sequence[str]) -> Verdicts:
    """Judge everything that a study asks."""
    frameworks = framework_pairs(trials, factors)
    comparisons = frameworks.comparisons
    fair = {pair: verdict_of(ratio) for pair, ratio in fair_ratios(cells, groups).items()}
    precisions = precision_verdicts(cells, trials, factors)
    specific = {**_same_configuration(cells, comparisons), **fair, **precisions.pairs, **speedups(cells, groups)}
    pairs = Pairs(groups, specific)
    independent = independence(cells.factors, [name for name in cells.keys if name in factors])
    experiment = _reconciled(_told(designed(trials, factors), independent), cells, pairs, comparisons)
    return Verdicts(
        pairs=pairs,
        designed=experiment,
        frameworks=comparisons,
        ranking=ranking(comparisons, speed_measure(comparisons), frameworks.left_out),
        fair=fair_comparisons(cells, groups),
        visible=_visible(pairs, experiment),
        independence=independent,
        precision_means=precisions.means,
    )


def _framework_pairs(comparisons: Sequence[Comparison], *, real: bool = False) -> list[Comparison]:
    """Comparisons of speed over all configurations."""
    measure = speed_measure(comparisons)
    return [
        pair for pair in comparisons if pair.measure == measure and pair.factors is None and (pair.real or not real)
    ]


def _same_configuration(cells: Configurations, comparisons: Sequence[Comparison]) -> dict[tuple[int, int], Difference]:
    """The comparisons of frameworks that are about two single configurations, by their positions."""
    compared = single_configurations(cells, comparisons, speed_measure(comparisons))
    return {(first, second): pair.speed for pair, first, second in compared}


def _told(experiment: Designed, independent: Independence) -> Designed:
    """The effects that are a factor's own: of confounded ones nobody can tell whose doing they are."""
    main = [effect for effect in experiment.main if independent.compares(effect.factor, effect.level, effect.reference)]
    trends = [trend for trend in experiment.trends if independent.tells(trend.factor)]
    together = [
        interaction for interaction in experiment.interactions if all(map(independent.tells, interaction.factors))
    ]
    return replace(experiment, main=main, trends=trends, interactions=together, confounded=independent.confounded_names)


def _reconciled(
    experiment: Designed, cells: Configurations, pairs: Pairs, comparisons: Sequence[Comparison]
) -> Designed:
    """The effects with the verdicts of those questions that are asked elsewhere too."""
    main = _with_frameworks(experiment.main, _framework_pairs(comparisons))
    if len(experiment.factors) == 1 and experiment.factors != ("framework",):
        main = _of_single_configurations(main, cells, pairs)
    anova = with_verdicts(experiment.anova, main, experiment.trends, experiment.interactions)
    if any(_framework_pairs(comparisons, real=True)):
        anova = [replace(row, differs=True) if row.factors == ("framework",) else row for row in anova]
    return replace(experiment, main=main, anova=anova)


def _with_frameworks(effects: Sequence[Effect], overall: Sequence[Comparison]) -> list[Effect]:
    """The effects of the frameworks from their pairs; a pair that shares no configuration, or variants, have none."""
    known = {(pair.first, pair.second): pair for pair in overall}
    judged: list[Effect] = []
    for effect in effects:
        if effect.factor != "framework":
            judged.append(effect)
            continue
        # Less speed is more time, and the reference comes first in the alphabet.
        pair = known.get((str(effect.reference), str(effect.level)))
        speed = None if pair is None else pair.speed
        if speed is not None and speed.low is not None and speed.high is not None:
            judged.append(replace(effect, ratio=speed.ratio, low=speed.low, high=speed.high, differs=speed.differs))
    return judged


def _of_single_configurations(effects: Sequence[Effect], cells: Configurations, pairs: Pairs) -> list[Effect]:
    """Where one factor varies, its levels are configurations: their pairs decide."""
    name = effects[0].factor if effects else ""
    exact = {levels[name]: position for position, levels in enumerate(cells.factors) if name in levels}
    if len(exact) != len(cells):
        return list(effects)
    at = {readable(level): position for level, position in exact.items()} | exact
    judged = []
    for effect in effects:
        difference = pairs.between(at[effect.level], at[effect.reference])
        work = math.log(_samples(cells, at[effect.level]) / _samples(cells, at[effect.reference]))
        if difference.low is not None and difference.high is not None:
            logs = [work - math.log(value) for value in (difference.ratio, difference.high, difference.low)]
            real = logs[1] > ROUNDING or logs[2] < -ROUNDING
            judged.append(
                replace(effect, ratio=math.exp(logs[0]), low=math.exp(logs[1]), high=math.exp(logs[2]), differs=real)
            )
    return judged


def _samples(cells: Configurations, at: int) -> float:
    """The work of a step of all workers."""
    return float(cells.work[at])


def _visible(pairs: Pairs, experiment: Designed) -> Visible:
    halves = [math.log(effect.high / effect.low) / 2 for effect in experiment.main]
    # Without any noise left there is no threshold to speak of.
    effect = math.exp(min(halves)) if halves and min(halves) > ROUNDING else None
    if pairs.visible is None:
        return Visible(effect=effect)
    least, typical = (math.exp(log) for log in pairs.visible)
    several = [group for group in pairs.groups if group.t_iter.error is not None]
    replicates = int(np.median([group.t_iter.n for group in several]))
    freedom = 2 * float(np.median([group.t_iter.freedom or 1.0 for group in several]))
    halving = replicates_to_halve(replicates, freedom, len(pairs.groups)) if typical > 1 else None
    return Visible(least, typical, effect, replicates, halving)


def replicates_to_halve(replicates: int, freedom: float, configurations: int) -> int | None:
    """How many replicates halve the difference that is seen between two configurations; None beyond all reason.

    >>> replicates_to_halve(3, 4.0, 2), replicates_to_halve(5, 80.0, 12)
    (8, 20)
    """
    questions = configurations * (configurations - 1) / 2

    def width(n: int) -> float:
        df = max(freedom * (n - 1) / (replicates - 1), 1.0)
        return float(critical(df, questions)) * math.sqrt(median_variance(n))

    wanted = width(replicates) / 2
    return next((n for n in range(replicates + 1, MOST_REPLICATES + 1) if width(n) <= wanted), None)
