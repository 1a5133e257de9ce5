"""Everything that is found out about a study, as one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from steplab.analysis.effects import Effect, main_effects
from steplab.analysis.noise import Noise, judge
from steplab.analysis.summary import Group, summarise


@dataclass(frozen=True)
class Analysis:
    """The findings of a study."""

    groups: list[Group]
    effects: list[Effect]
    noise: Noise
    trials: int
    failed: int
    varied: tuple[str, ...]  # the factors that take more than one level

    @property
    def fastest(self) -> list[Group]:
        """The configuration with the highest throughput, then those that cannot be told from it."""
        if not self.groups:
            return []
        from steplab.analysis.apart import surely_slower

        slower = surely_slower([group.throughput for group in self.groups], [group.t_iter for group in self.groups])
        return [group for at, (group, sure) in enumerate(zip(self.groups, slower, strict=True)) if not at or not sure]


def analyse(trials: pd.DataFrame, factors: Sequence[str], cpus: int) -> Analysis:
    """Analyse the table `trials` of a study."""
    return Analysis(
        groups=summarise(trials, factors),
        effects=main_effects(trials, factors),
        noise=judge(trials, factors, cpus),
        trials=len(trials),
        failed=int((trials["status"] != "ok").sum()) if len(trials) else 0,
        varied=tuple(name for name in factors if name in trials and trials[name].nunique(dropna=False) > 1),
    )
