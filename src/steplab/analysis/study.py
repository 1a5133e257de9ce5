"""Everything that is found out about a study, as one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd
import pyarrow as pa

from steplab.analysis.configurations import configurations
from steplab.analysis.confounded_factors import Independence
from steplab.analysis.dependent_factors import Dependent, dependent_factors, independent
from steplab.analysis.effects.findings import Designed, Effect
from steplab.analysis.framework_measures import TO_ACCURACY
from steplab.analysis.framework_verdicts import framework_verdicts
from steplab.analysis.frameworks import Comparison, speed_measure
from steplab.analysis.latency import Inference, inference
from steplab.analysis.layers import LayerProfile, layer_profile
from steplab.analysis.noise import Noise, judge
from steplab.analysis.precision import PrecisionGain, precision_gains
from steplab.analysis.ranking import Ranking
from steplab.analysis.scaling.fair_baseline import FairComparison
from steplab.analysis.scaling.imbalance import Imbalance, imbalance
from steplab.analysis.scaling.series import Scaling, series_of
from steplab.analysis.scaling.why import Why, answers
from steplab.analysis.summary import Group, groups_of
from steplab.analysis.training import Training, training
from steplab.analysis.unexplained import Unexplained, unexplained
from steplab.analysis.verdicts import Verdicts, verdicts
from steplab.core.blas import on_one_thread
from steplab.core.trial import tally

MOST_IMBALANCES = 5


@dataclass(frozen=True)
class Analysis:
    """The findings of a study."""

    groups: list[Group]
    verdicts: Verdicts
    noise: Noise
    trials: int
    failed: int
    unsupported: int  # refused beforehand, because the framework cannot do it
    varied: tuple[str, ...]  # the factors that take more than one level
    scaling: list[Scaling] = field(default_factory=list)
    why: list[Why] = field(default_factory=list)  # the least efficient configuration first
    unexplained: list[Unexplained] = field(default_factory=list)  # phases that do not sum to the step
    imbalance: list[Imbalance] = field(default_factory=list)  # the trials in which ranks wait longest
    layers: LayerProfile | None = None  # of the fastest configuration whose layers were timed
    training: Training | None = None  # of kind train: time to accuracy, and the curves
    inference: Inference | None = None  # of kind infer: latencies
    dependent: list[Dependent] = field(default_factory=list)  # factors that follow from others, in no configuration
    precision: list[PrecisionGain] = field(default_factory=list)  # other precisions than float32, the best first
    assumption: str = ""  # what is assumed of the work of a step, where no batch size is known

    @property
    def independence(self) -> Independence:
        """Which factors were not varied independently."""
        return self.verdicts.independence

    @property
    def designed(self) -> Designed:
        """The designed experiment."""
        return self.verdicts.designed

    @property
    def effects(self) -> list[Effect]:
        """The main effects."""
        return self.verdicts.designed.main

    @property
    def frameworks(self) -> list[Comparison]:
        """The frameworks in pairs."""
        return self.verdicts.frameworks

    @property
    def ranking(self) -> Ranking | None:
        """The frameworks by throughput, with the groups of those that cannot be told apart."""
        return self.verdicts.ranking

    @property
    def fair(self) -> list[FairComparison]:
        """Several workers against one worker on the same cores."""
        return self.verdicts.fair

    @property
    def fastest(self) -> list[Group]:
        """The fastest configuration, by throughput where that is known, then those that cannot be told from it."""
        return self.verdicts.fastest


@on_one_thread
def analyse(
    trials: pd.DataFrame,
    factors: Sequence[str],
    iterations: pa.Table | None = None,
    layers: pa.Table | None = None,
    epochs: pa.Table | None = None,
) -> Analysis:
    """Analyse the tables of a study; without iterations and layers, imbalance is known only as a number."""
    dependent = dependent_factors(trials, factors) if len(trials) else []
    factors = independent(factors, dependent)
    waiting = [] if iterations is None or layers is None else imbalance(trials, iterations, layers, MOST_IMBALANCES)
    cells = configurations(trials, factors)
    groups = groups_of(cells)
    fastest_first = sorted(groups, key=lambda group: -group.speed)
    ended = tally(trials["status"] if len(trials) else ())
    judged = verdicts(cells, groups, trials, factors)
    pairs = judged.frameworks
    steps, times = (framework_verdicts(cells, pairs, measure) for measure in (speed_measure(pairs), TO_ACCURACY))
    return Analysis(
        groups=fastest_first,
        verdicts=judged,
        noise=_noise(trials, factors, judged),
        trials=len(trials),
        failed=ended.failed,
        unsupported=ended.unsupported,
        varied=varied_factors(trials, factors),
        scaling=series_of(cells, groups),
        why=answers(cells, judged.pairs),
        unexplained=unexplained(cells),
        imbalance=waiting,
        layers=None if layers is None else layer_profile(trials, layers, fastest_first),
        training=None if epochs is None else training(trials, factors, epochs, times),
        inference=None if iterations is None else inference(trials, factors, iterations, steps),
        dependent=dependent,
        precision=precision_gains(cells, groups, judged.pairs, judged.precision_means),
        assumption=cells.falling.assumption if cells.unknown_work else "",
    )


def varied_factors(trials: pd.DataFrame, factors: Sequence[str]) -> tuple[str, ...]:
    """The factors that tell configurations apart.

    One with a single level, which does not apply everywhere (the width of one network among several), tells nothing
    that the others do not.
    """
    varied = [name for name in factors if name in trials and trials[name].nunique(dropna=False) > 1]
    several = [name for name in varied if trials[name].nunique() > 1]
    told = len(trials[several].drop_duplicates()) if several else 1
    return tuple(several if told == len(trials[varied].drop_duplicates()) else varied)


def _noise(trials: pd.DataFrame, factors: Sequence[str], judged: Verdicts) -> Noise:
    """The noise with what the verdicts leave visible."""
    seen = judged.visible
    least, typical, effect = (
        None if ratio is None else ratio - 1 for ratio in (seen.configurations, seen.typical, seen.effect)
    )
    noise = judge(trials, factors)
    return replace(
        noise,
        advice=noise.advice_on(typical),
        detectable=least,
        detectable_typical=typical,
        detectable_effect=effect,
        replicates=seen.replicates,
        halving=seen.halving,
    )
