"""The verdict on one trial: what in its own record speaks against its numbers.

Each doubt is one short sentence with its number, led by the word for its kind (`drift: …`), so that tables, sentences
and counts can be made of it. The thresholds say where a person should look, not where a number is false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from steplab import kinds
from steplab.core.record import Mode, Record
from steplab.core.steadiness import Drift, relative_error
from steplab.core.step_time import step_times
from steplab.core.warm_up import CAP, is_steady
from steplab.store.series import Series

Array = NDArray[np.float64]
Verdict = Literal["clean", "doubtful", "bad"]

# An interquartile range of 27 % of the median; PyTorch's benchmark module calls more than 25 % a large one.
SPREAD = 0.20
SPREAD_BAD = 0.50  # the slow half of the iterations takes about twice as long as the fast half
# What the warm-up tolerates too: a smaller change is lost in the differences between processes.
DRIFT = 0.05
DRIFT_BAD = 0.25  # the median depends on how long was measured more than on what was measured
DRIFT_P = 0.01  # one false alarm in a hundred steady trials
OUTLIERS = 0.10  # log-normal times have 0.3 % of them; from a tenth on they are a second kind of step
FEWEST_OUTLIERS = 3  # one odd step among eight is no share to speak of
OTHERS = 0.15  # beside two busy cores this is a third of one
OTHERS_BAD = 0.50  # others had more of the machine than all that could be left for the trial
ERROR = 0.10  # a median known worse than this cannot tell usual configurations apart


@dataclass(frozen=True)
class Doubt:
    """One thing that speaks against a trial."""

    kind: str
    text: str
    bad: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def doubt_columns(record: Record, native: Series | None) -> dict[str, Any]:
    """The columns verdict, doubts, outliers, other_cpu_share and throttled of a trial with these native step times."""
    share = other_cpu_share(record)
    row: dict[str, Any] = {"verdict": None, "doubts": "", "outliers": np.nan, "other_cpu_share": share}
    row["throttled"] = record.throttled
    if native is None:
        return row
    known = doubts(record, native)
    return row | {"verdict": verdict(known), "doubts": "; ".join(map(str, known)), "outliers": native.outliers}


def verdict(doubts: list[Doubt]) -> Verdict:
    """One word for all doubts.

    >>> verdict([]), verdict([Doubt("drift", "…")]), verdict([Doubt("drift", "…", bad=True)])
    ('clean', 'doubtful', 'bad')
    """
    if not doubts:
        return "clean"
    return "bad" if any(doubt.bad for doubt in doubts) else "doubtful"


def doubts(record: Record, native: Series) -> list[Doubt]:
    """All that speaks against the trial, what concerns its times first."""
    judged = [_spread(native.spread), _drift(native), _outliers(native), _precision(record, native)]
    judged += [_warmup(record), _recompiled(record), _others(other_cpu_share(record)), _throttled(record.throttled)]
    return [doubt for doubt in judged if doubt is not None]


def kind_of(text: str) -> str:
    """The kind of a doubt from its sentence.

    >>> kind_of("drift: the step time rises by 12 % in the course of the trial")
    'drift'
    """
    return text.partition(": ")[0]


def other_cpu_share(record: Record) -> float | None:
    """Share of the machine's CPU time that other programs took during the trial; None where that was not measured."""
    cpus = record.machine.cpus
    if record.other_cpu_s is None or not cpus or not record.seconds:
        return None
    return min(record.other_cpu_s / (record.seconds * cpus), 1.0)


def _spread(spread: float) -> Doubt | None:
    if spread <= SPREAD:
        return None
    return Doubt("spread", f"its iterations differ by {spread:.0%}", spread > SPREAD_BAD)


def _drift(native: Series) -> Doubt | None:
    drift = native.drift
    if abs(drift.change) <= DRIFT or drift.p >= DRIFT_P:
        return None
    way = "rises" if drift.change > 0 else "falls"
    where = f"from iteration {drift.at} of {len(native.times)} on" if drift.at else "in the course of the trial"
    return Doubt(
        "drift", f"the step time {way} by {abs(_of_the_start(drift)):.0%} {where}", abs(drift.change) > DRIFT_BAD
    )


def _of_the_start(drift: Drift) -> float:
    """A change as a share of where the series began: a line's is known as a share of its middle.

    >>> round(_of_the_start(Drift(-1.36)), 2), _of_the_start(Drift(-0.5, at=3)), _of_the_start(Drift(0.2))
    (-0.81, -0.5, 0.2)
    """
    return drift.change / (1 - drift.change / 2) if drift.at is None and drift.change < 0 else drift.change


def _outliers(native: Series) -> Doubt | None:
    if native.outliers <= OUTLIERS or native.outliers * len(native.times) < FEWEST_OUTLIERS - 0.5:
        return None
    return Doubt("outliers", f"{native.outliers:.0%} of its iterations lie far from the others")


def _precision(record: Record, native: Series) -> Doubt | None:
    """The interval of the median, by which iterations ended, against what was asked or against what is of use."""
    asked = record.measure.precision
    error = relative_error(native.median, native.low, native.high)
    if asked is not None and error > asked:
        most = record.measure.max_iterations
        return Doubt("precision", f"±{asked:.1%} was asked, ±{error:.1%} reached in at most {most} iterations")
    # A single time, as imported averages are, has no interval to doubt: the analysis says what that means.
    if asked is None and ERROR < error < np.inf:
        return Doubt("precision", f"its median is known to ±{error:.0%} only")
    return None


def _warmup(record: Record) -> Doubt | None:
    """A warm-up that met its cap before the times stood still."""
    if record.measure.warmup != "auto":
        return None
    cycle = record.resolved.accumulate
    by_rank = [_warmup_times(rank.modes["native"]) for rank in record.ranks]
    whole = min(map(len, by_rank)) // cycle * cycle
    shared = kinds.named(record.kind).shares_period(record.resolved.strategy)
    times = step_times(np.array([stamps[:whole] for stamps in by_rank]), shared).reshape(-1, cycle).mean(axis=1)
    if len(times) < CAP or is_steady(times.tolist()):
        return None
    return Doubt("warm-up", f"the times had not settled after {whole} iterations, its cap")


def _warmup_times(mode: Mode) -> Array:
    times: Array = np.asarray(mode.columns["t_iter"])[np.asarray(mode.warmup, dtype=bool)]
    return times


def _recompiled(record: Record) -> Doubt | None:
    """Code that was compiled for something else first: a step that was measured may have waited for it."""
    reasons = max((rank.recompiled for rank in record.ranks), key=len, default=[])
    if not reasons:
        return None
    times = "once more" if len(reasons) == 1 else f"{len(reasons)} times more"
    # A reason must not look like doubts of its own.
    return Doubt(
        "recompilation", f"the network was compiled {times}, first because of {reasons[0].replace('; ', ', ')}"
    )


def _others(share: float | None) -> Doubt | None:
    if share is None or share <= OTHERS:
        return None
    return Doubt("others", f"other programs took {share:.0%} of the machine", share > OTHERS_BAD)


def _throttled(seen: str | None) -> Doubt | None:
    # The parts of what was seen must not look like doubts of their own.
    return Doubt("throttling", seen.replace("; ", ", ")) if seen else None
