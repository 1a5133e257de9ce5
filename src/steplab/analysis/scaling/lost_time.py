"""Where the time goes that a step with several workers takes longer than an ideal one, cause by cause.

Ideal is t(1) under weak scaling and t(1)/N under strong scaling. With c = t_f + t_b averaged over the ranks and
LIF = N·max c_i/Σ c_i, the slowest rank computes LIF·c and the others (N − LIF)/(N − 1)·c on average. So

    contention    what the other ranks compute longer than one alone
    waiting       c + t_wait less what the others compute: a rank that is always slower, and jitter
    communication t_move, less what is hidden behind back-propagation in the native mode
    loader        t_io
    overhead      t_h2d + t_md + t_u + t_other

each less its ideal. They are medians over replicates, as all other times are; intervals are Welch's t with the variance
of a median. Medians do not add up exactly: what the parts leave of the native step's excess, beyond what overlap hides,
is `unexplained`. The excess itself is that of the efficiency which the tables show, with its interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.analysis.configurations import Configurations, Indices
from steplab.analysis.statistics.intervals import median_variance
from steplab_worker.phases import EXCHANGE, LAYERED, SHARES

Array = NDArray[np.float64]
PARTS = ("contention", "slow", "jitter", "move", "loader", "overhead", "native", "phased", "gap", "exposed", "waiting")
OVERHEAD = tuple(name for name in SHARES if name not in ("t_io", *LAYERED, EXCHANGE))


ROUNDING_S = 1e-12  # differences of stamps below it are arithmetic, not time


@dataclass(frozen=True)
class Amount:
    """Seconds per step with a 95 % interval; none from a single replicate."""

    seconds: float
    low: float | None
    high: float | None

    @property
    def sure(self) -> bool:
        """Whether it is surely more than nothing; a single replicate is sure of nothing, and rounding is nothing."""
        return self.low is not None and self.low > ROUNDING_S

    @property
    def nothing(self) -> bool:
        """Whether it is only rounding."""
        return abs(self.seconds) < ROUNDING_S


@dataclass(frozen=True)
class Excess:
    """The excess of every pair of a configuration with several workers (`many`) and its one-worker `base`."""

    many: Indices
    base: Indices
    estimate: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame
    median: pd.DataFrame  # of the parts, by configuration
    trials: dict[str, Array]  # the parts of each trial

    def amount(self, at: int, part: str) -> Amount:
        """One part of one pair."""
        low, high = self._low[part][at], self._high[part][at]
        known = np.isfinite(low) and np.isfinite(high)
        return Amount(self._estimate[part][at], low if known else None, high if known else None)

    @cached_property
    def _estimate(self) -> dict[str, list[float]]:
        return {str(name): values.tolist() for name, values in self.estimate.items()}

    @cached_property
    def _low(self) -> dict[str, list[float]]:
        return {str(name): values.tolist() for name, values in self.low.items()}

    @cached_property
    def _high(self) -> dict[str, list[float]]:
        return {str(name): values.tolist() for name, values in self.high.items()}


def parts(cells: Configurations) -> pd.DataFrame:
    """The parts of each trial's step, NaN where its phases were not measured."""
    workers = cells.workers[cells.of].astype(float)
    compute = cells.values("t_f") + cells.values("t_b")
    wait = _or_zero(cells, "t_wait")
    # An imported table may know the aggregation only as a whole.
    move = np.where(np.isfinite(cells.values("t_move")), cells.values("t_move"), _or_zero(cells, "t_c") - wait)
    lif = np.where(workers > 1, cells.values("lif"), 1.0)
    # LIF may be unknown where the phases are not (imported tables): then no rank is known to be slower.
    lif = np.where(np.isfinite(lif), lif, 1.0)
    rest = np.maximum(workers - 1, 1)
    others = np.where(workers > 1, compute * (workers - lif) / rest, compute)
    slow = np.where(workers > 1, compute * workers * (lif - 1) / rest, 0.0)
    native, phased = cells.values("t_iter"), cells.values("t_iter_phased")
    columns = {
        "contention": others,
        "slow": slow,
        "jitter": compute + wait - others - slow,
        "move": move,
        "loader": cells.values("t_io"),
        "overhead": sum((_or_zero(cells, name) for name in OVERHEAD), start=np.zeros(len(workers))),
        "native": native,
        "phased": phased,
        "gap": phased - native,
        "exposed": np.where(workers > 1, move - np.clip(cells.values("t_hidden"), 0.0, move), move),
        "waiting": compute + wait - others,
    }
    return pd.DataFrame(columns)


def _or_zero(cells: Configurations, name: str) -> Array:
    values = cells.values(name)
    return np.where(np.isfinite(values), values, 0.0)


def excess(cells: Configurations, many: Indices, base: Indices, level: float = 0.95) -> Excess:
    """Parts with several workers less the ideal share of those with one, with intervals by Welch's t."""
    from scipy.stats import t

    trials = parts(cells)
    of = trials.groupby(cells.of)
    median, variance, n = of.median(), of.var(ddof=1), of.count()
    known = {
        int(replicates): median_variance(int(replicates)) if replicates else np.nan
        for replicates in np.unique(n.to_numpy())
    }
    spread = variance.to_numpy() * n.map(known.__getitem__).to_numpy()
    ideal = np.where(cells.strong[many], 1.0 / cells.workers[many], 1.0)[:, None]
    estimate = median.to_numpy()[many] - ideal * median.to_numpy()[base]
    with np.errstate(invalid="ignore", divide="ignore"):
        own, theirs = spread[many], ideal**2 * spread[base]
        counts = n.to_numpy()[many] - 1, n.to_numpy()[base] - 1
        freedom = (own + theirs) ** 2 / (own**2 / counts[0] + theirs**2 / counts[1])
        # Without any noise there are no degrees of freedom to speak of, and no width either.
        half = np.where(own + theirs > 0, t.ppf((1 + level) / 2, freedom) * np.sqrt(own + theirs), 0.0)
        half = np.where((counts[0] > 0) & (counts[1] > 0), half, np.nan)

    by_trial = {str(name): values.to_numpy(dtype=float) for name, values in trials.items()}

    def framed(values: Array) -> pd.DataFrame:
        return pd.DataFrame(values, columns=list(PARTS))

    return Excess(many, base, framed(estimate), framed(estimate - half), framed(estimate + half), median, by_trial)
