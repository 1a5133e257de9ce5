"""Phases that do not sum to the step they are parts of: said, never hidden."""

from __future__ import annotations

from dataclasses import dataclass

from steplab.analysis.configurations import Configurations
from steplab.core.trial import Level
from steplab.core.units import seconds

TOLERANCE = 0.05  # a share of the step that phases may leave unexplained without a word


@dataclass(frozen=True)
class Unexplained:
    """A configuration whose phases leave a part of the step over, or claim more than all of it."""

    factors: dict[str, Level]
    phases_s: float
    t_iter_s: float
    share: float  # of the step: positive, no phase explains it; negative, phases overlap or were measured apart
    sentence: str


def unexplained(cells: Configurations) -> list[Unexplained]:
    """The configurations whose phases do not sum to the iteration time, the worst first."""
    medians = cells.medians(("t_other", "t_iter_phased"))
    if not {"t_other", "t_iter_phased"} <= set(medians.columns):
        return []
    step, rest = medians["t_iter_phased"].to_numpy(dtype=float), medians["t_other"].to_numpy(dtype=float)
    unequal = [
        _judged(cells.factors[at], float(step[at] - rest[at]), float(step[at]))
        for at in range(len(cells))
        if step[at] > 0 and abs(rest[at]) > TOLERANCE * step[at]
    ]
    return sorted(unequal, key=lambda configuration: -abs(configuration.share))


def _judged(factors: dict[str, Level], phases: float, step: float) -> Unexplained:
    share = (step - phases) / step
    kind = "no phase explains the rest" if share > 0 else "phases overlap, or were not measured in the same iterations"
    text = f"The phases sum to {seconds(phases)}, the iteration takes {seconds(step)}: {kind}."
    return Unexplained(factors, phases, step, share, text)
