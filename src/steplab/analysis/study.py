"""Everything that is found out about a study, as one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd
import pyarrow as pa

from steplab.analysis.configurations import Configurations, configurations
from steplab.analysis.dependent_factors import Dependent, dependent_factors, independent
from steplab.analysis.effects.analysis import designed
from steplab.analysis.effects.findings import Designed, Effect
from steplab.analysis.frameworks import Comparison, compare_frameworks
from steplab.analysis.latency import Inference, inference
from steplab.analysis.noise import Noise, judge
from steplab.analysis.scaling.imbalance import Imbalance, imbalance
from steplab.analysis.scaling.series import Scaling, series_of
from steplab.analysis.scaling.why import Why, answers
from steplab.analysis.statistics.slower_than_best import surely_slower
from steplab.analysis.summary import Group, groups_of
from steplab.analysis.training import Training, training
from steplab.analysis.unexplained import Unexplained, unexplained
from steplab.analysis.unknown_work import assumption
from steplab.core.trial import tally

MOST_IMBALANCES = 5


@dataclass(frozen=True)
class Analysis:
    """The findings of a study."""

    groups: list[Group]
    designed: Designed
    noise: Noise
    trials: int
    failed: int
    unsupported: int  # refused beforehand, because the framework cannot do it
    varied: tuple[str, ...]  # the factors that take more than one level
    scaling: list[Scaling] = field(default_factory=list)
    why: list[Why] = field(default_factory=list)  # the least efficient configuration first
    frameworks: list[Comparison] = field(default_factory=list)
    unexplained: list[Unexplained] = field(default_factory=list)  # phases that do not sum to the step
    imbalance: list[Imbalance] = field(default_factory=list)  # the trials in which ranks wait longest
    training: Training | None = None  # of kind train: time to accuracy, and the curves
    inference: Inference | None = None  # of kind infer: latencies
    dependent: list[Dependent] = field(default_factory=list)  # factors that follow from others, in no configuration
    assumption: str = ""  # what is assumed of the work of a step, where no batch size is known

    @property
    def effects(self) -> list[Effect]:
        """The main effects."""
        return self.designed.main

    @property
    def fastest(self) -> list[Group]:
        """The fastest configuration, by throughput where that is known, then those that cannot be told from it."""
        if not self.groups:
            return []
        slower = surely_slower([group.speed for group in self.groups], [group.t_iter for group in self.groups])
        return [group for at, (group, sure) in enumerate(zip(self.groups, slower, strict=True)) if not at or not sure]


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
    ended = tally(trials["status"] if len(trials) else ())
    return Analysis(
        groups=sorted(groups, key=lambda group: -group.speed),
        designed=designed(trials, factors),
        noise=judge(trials, factors),
        trials=len(trials),
        failed=ended.failed,
        unsupported=ended.unsupported,
        varied=tuple(name for name in factors if name in trials and trials[name].nunique(dropna=False) > 1),
        scaling=series_of(cells, groups),
        why=answers(cells, groups),
        frameworks=compare_frameworks(trials, factors),
        unexplained=unexplained(cells),
        imbalance=waiting,
        training=None if epochs is None else training(trials, factors, epochs),
        inference=None if iterations is None else inference(trials, factors, iterations),
        dependent=dependent,
        assumption=_assumption(cells),
    )


def _assumption(cells: Configurations) -> str:
    """What must be said of the work of a step."""
    if not cells.unknown_work:
        return ""
    return assumption(bool(cells.strong.any()), several=len(set(cells.workers.tolist())) > 1)
