"""Everything that is found out about a study, as one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from steplab.analysis.configurations import configurations
from steplab.analysis.effects import Effect, main_effects
from steplab.analysis.frameworks import Comparison, compare_frameworks
from steplab.analysis.noise import Noise, judge
from steplab.analysis.scaling import Scaling, series_of
from steplab.analysis.summary import Group, groups_of
from steplab.analysis.unexplained import Unexplained, unexplained
from steplab.analysis.why import Why, answers


@dataclass(frozen=True)
class Analysis:
    """The findings of a study."""

    groups: list[Group]
    effects: list[Effect]
    noise: Noise
    trials: int
    failed: int
    varied: tuple[str, ...]  # the factors that take more than one level
    scaling: list[Scaling] = field(default_factory=list)
    why: list[Why] = field(default_factory=list)  # the least efficient configuration first
    frameworks: list[Comparison] = field(default_factory=list)
    unexplained: list[Unexplained] = field(default_factory=list)  # phases that do not sum to the step

    @property
    def fastest(self) -> list[Group]:
        """The configuration with the highest throughput, then those that cannot be told from it."""
        if not self.groups:
            return []
        best = self.groups[0]
        return [group for group in self.groups if group is best or not _slower(group, best)]


def _slower(group: Group, best: Group) -> bool:
    """Whether the throughput is surely lower than the best one's."""
    scale = group.throughput * group.t_iter.median
    best_scale = best.throughput * best.t_iter.median
    return scale / group.t_iter.low < best_scale / best.t_iter.high


def analyse(trials: pd.DataFrame, factors: Sequence[str], cpus: int) -> Analysis:
    """Analyse the table `trials` of a study."""
    cells = configurations(trials, factors)
    groups = groups_of(cells)
    return Analysis(
        groups=sorted(groups, key=lambda group: -group.throughput),
        effects=main_effects(trials, factors),
        noise=judge(trials, factors, cpus),
        trials=len(trials),
        failed=int((trials["status"] != "ok").sum()) if len(trials) else 0,
        varied=tuple(name for name in factors if name in trials and trials[name].nunique(dropna=False) > 1),
        scaling=series_of(cells, groups),
        why=answers(cells, groups),
        frameworks=compare_frameworks(trials, factors),
        unexplained=unexplained(cells),
    )
