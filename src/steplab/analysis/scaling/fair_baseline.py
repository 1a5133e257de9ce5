"""Several workers against one worker that may use the same cores of the same machine.

A rank has one thread by default, so a speed-up against one worker is mostly the second core. The question of somebody
with a machine is another one: what do its cores do best? So several workers are compared with the fastest single
worker that uses no more of a machine's cores than they do, provided that one with all of these cores was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steplab.analysis.configurations import Configurations
from steplab.analysis.summary import Group, Ratio, replicates_freedom, throughput_ratio
from steplab.core.trial import Level
from steplab.core.units import ends

VIRTUAL = ("synthetic", "replay")  # their ranks have no cores


@dataclass(frozen=True)
class FairComparison:
    """A configuration with several workers, and what one worker does with the same cores; None: not measured."""

    factors: dict[str, Level]
    workers: int
    cores: int  # of a machine that the workers use
    threads: int | None  # of the one worker
    throughput: float
    alone: float | None  # the throughput of the one worker
    ratio: Ratio | None
    threads_measured: tuple[int, ...]  # of one worker

    @property
    def line(self) -> str:
        """What to add to the study."""
        return f"threads = [{', '.join(map(str, sorted({*self.threads_measured, self.cores})))}]"

    @property
    def sentence(self) -> str:
        """The comparison in words, or how to make it."""
        return self.told("")

    def told(self, where: str) -> str:
        """The same with the configuration that it is about."""
        where = f" with {where}" if where else ""
        if self.ratio is None or self.threads is None:
            return (
                f"One worker with all {self.cores} cores that {self.workers} workers use{where} was not measured, so "
                f"how much of the speed-up is the cores alone is not known: write {self.line} into [factors]."
            )
        value, low, high = self.ratio.value, self.ratio.low, self.ratio.high
        doubt = "" if low is None or high is None else f" ({ends(low, high)})"
        thread = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        text = f"On the same {self.cores} cores{where}, {self.workers} workers do {value:.2f} times{doubt} the work of "
        slower = f" (with {self.cores} it was slower)" if self.threads < self.cores else ""
        return f"{text}one worker with {thread}{slower}: {_verdict(self.workers, low, high)}."


def _verdict(workers: int, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "one trial of each, so nothing tells this from noise"
    if low > 1:
        return "more workers pay"
    return "one worker uses the cores better" if high < 1 else "the two cannot be told apart"


@dataclass(frozen=True)
class _Asked:
    """A configuration with several workers, the cores they use, and the one-worker configurations beside it."""

    at: int
    cores: int
    rivals: tuple[int, ...]
    threads: tuple[int, ...]  # of the rivals

    def base(self, groups: Sequence[Group]) -> int | None:
        """The fastest rival, if all cores were tried."""
        if self.cores not in self.threads:
            return None
        return max(self.rivals, key=lambda rival: groups[rival].rate)


def fair_comparisons(cells: Configurations, groups: Sequence[Group]) -> list[FairComparison]:
    """One for each configuration with several workers whose machine is known, the highest throughput first."""
    ratios = fair_ratios(cells, groups)
    fair = [_comparison(cells, groups, comparison, ratios) for comparison in _asked(cells)]
    return sorted(fair, key=lambda comparison: -comparison.throughput)


def fair_ratios(cells: Configurations, groups: Sequence[Group]) -> dict[tuple[int, int], Ratio]:
    """The ratios of throughputs, by the positions of several workers and of the one; a speed-up keeps its own."""
    pool = replicates_freedom(groups)
    pairs = [(question.at, base) for question in _asked(cells) if (base := question.base(groups)) is not None]
    return {
        (at, base): _speedup(groups[at])
        if cells.series[at] == cells.series[base]
        else throughput_ratio(groups[at], groups[base], len(pairs), pool)
        for at, base in pairs
    }


def _speedup(group: Group) -> Ratio:
    assert group.speedup is not None
    return group.speedup


def _asked(cells: Configurations) -> list[_Asked]:
    if not len(cells):
        return []
    ranks, threads, cpus = (cells.values(name)[cells.first] for name in ("ranks_per_host", "threads", "cpus"))
    cores = np.minimum(ranks * threads, cpus)
    alone: dict[int, list[int]] = {}
    for at in np.flatnonzero((cells.workers == 1) & np.isfinite(threads)).tolist():
        alone.setdefault(int(cells.machine_users[at]), []).append(at)
    asked = []
    for at in np.flatnonzero((cells.workers > 1) & np.isfinite(cores)).tolist():
        rivals = [rival for rival in alone.get(int(cells.machine_users[at]), []) if threads[rival] <= cores[at]]
        if rivals and _on_cores(cells, at):
            measured = tuple(sorted({int(threads[rival]) for rival in rivals}))
            asked.append(_Asked(at, int(cores[at]), tuple(rivals), measured))
    return asked


def _on_cores(cells: Configurations, at: int) -> bool:
    """Whether a configuration computes on the cores of a real machine."""
    framework = cells.rows["framework"].iloc[cells.first[at]] if "framework" in cells.rows else ""
    return framework not in VIRTUAL and str(cells.factors[at].get("device", "cpu")) == "cpu"


def _comparison(
    cells: Configurations, groups: Sequence[Group], asked: _Asked, ratios: Mapping[tuple[int, int], Ratio]
) -> FairComparison:
    group, base = groups[asked.at], asked.base(groups)
    threads = None if base is None else int(cells.values("threads")[cells.first[base]])
    return FairComparison(
        factors=group.factors,
        workers=int(cells.workers[asked.at]),
        cores=asked.cores,
        threads=threads,
        throughput=group.rate,
        alone=None if base is None else groups[base].rate,
        ratio=None if base is None else ratios[asked.at, base],
        threads_measured=asked.threads,
    )
