"""How well a step uses its machine: FLOP/s of the network against the measured roof, tokens per second and per joule.

Model-FLOPs utilisation is that of A. Chowdhery et al., "PaLM: scaling language modeling with pathways", JMLR 24, 2023,
appendix B: the FLOPs that the network's products need, by the time of the step, by the peak. What is computed a second
time for the sake of memory is not counted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steplab.analysis.statistics.intervals import Interval

# Columns of `trials` from which it is told; they come from the costs of the network and from the machine's ceilings.
FLOPS = "step_flops"  # of convolutions and matrix products, in an iteration of all workers
TOKENS = "step_tokens"  # in an iteration of all workers
ROOF = "roof_flops_per_s"  # of a matrix product on the threads of all workers


def power_column(provenance: str) -> str:
    """The column of the trial's mean power, if its joules are of this provenance."""
    return f"watts_{provenance}"


POWERS = {power_column(provenance): provenance for provenance in ("nvml", "rapl", "estimated")}
COLUMNS = (FLOPS, TOKENS, ROOF, *POWERS)


@dataclass(frozen=True)
class Rate:
    """Something per second, or a share of what is possible, with its 95 % interval; none from a single value."""

    value: float
    low: float | None
    high: float | None

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends, if there are any."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True)
class Utilisation:
    """What a configuration computes in a second; None is not known."""

    flops_per_s: Rate | None = None  # of convolutions and matrix products, all workers together
    roof_flops_per_s: float | None = None
    share: Rate | None = None  # of the roof: the model-FLOPs utilisation
    tokens_per_s: Rate | None = None
    tokens_per_joule: Rate | None = None
    energy_provenance: str = ""  # of these joules

    @property
    def estimated(self) -> str:
        """What must be said beside tokens for a joule that nobody measured."""
        return " (estimated)" if self.energy_provenance == "estimated" else ""


def utilisation(t_iter: Interval, known: Mapping[str, float]) -> Utilisation | None:
    """What is known of a configuration with these columns; None if that is nothing.

    >>> used = utilisation(Interval(0.5, 0.4, 0.8, 3, "t"), {FLOPS: 2e9, ROOF: 1e10})
    >>> used.share
    Rate(value=0.4, low=0.25, high=0.5)
    """
    flops, tokens, roof = (known.get(name) for name in (FLOPS, TOKENS, ROOF))
    if not flops and not tokens:
        return None
    watts, provenance = _power(known) if tokens else (None, "")
    return Utilisation(
        flops_per_s=_rate(flops, t_iter),
        roof_flops_per_s=roof if flops else None,
        share=_rate(flops / roof, t_iter) if flops and roof else None,
        tokens_per_s=_rate(tokens, t_iter),
        tokens_per_joule=_rate(tokens / watts, t_iter) if tokens and watts else None,
        energy_provenance=provenance,
    )


def _power(known: Mapping[str, float]) -> tuple[float | None, str]:
    """The mean power and what its joules are; none where trials have them from different sources."""
    powers = [(known[column], provenance) for column, provenance in POWERS.items() if known.get(column)]
    return powers[0] if len(powers) == 1 else (None, "")


def _rate(work: float | None, t_iter: Interval) -> Rate | None:
    """So much work in the time of a step; a longer step is a lower rate."""
    if not work:
        return None
    low, high = (None if end is None else work / end for end in (t_iter.high, t_iter.low))
    return Rate(work / t_iter.median, low, high)
