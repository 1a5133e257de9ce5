"""How far a study's numbers can be trusted, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

DRIFTING = 0.10
QUIET, USABLE = 0.03, 0.10
DISTURBED = 0.15  # share of the machine that other programs may take before it is said


@dataclass(frozen=True)
class Noise:
    """The noise of a study and what to do about it; shares, not per cent."""

    verdict: Literal["quiet", "usable", "noisy", "unknown"]
    between: float | None  # spread of replicates' medians around their configuration's
    within: float | None  # median spread of iterations inside a trial
    drifting: float  # share of trials whose second half differs from the first
    others: float | None  # share of the machine's CPU time that other programs took
    detectable: float | None  # the smallest difference of two configurations that this study can show
    advice: str


def judge(trials: pd.DataFrame, factors: Sequence[str], cpus: int) -> Noise:
    """The verdict on a study's trials."""
    ok = trials[trials["status"] == "ok"] if len(trials) else trials
    if not len(ok):
        return Noise("unknown", None, None, 0.0, None, None, "No trial has been measured.")
    between, replicates = _between(ok, [name for name in factors if name in ok])
    within = float(ok["spread"].median())
    drifting = float((ok["drift"].abs() > DRIFTING).mean())
    busy = ok["seconds"].sum() * cpus
    others = float(ok["other_cpu_s"].sum() / busy) if busy and ok["other_cpu_s"].notna().any() else None
    detectable = float(np.expm1(1.96 * np.sqrt(2 / replicates) * between)) if between is not None else None
    return Noise(_verdict(between), between, within, drifting, others, detectable, _advice(between, drifting, others))


def _between(ok: pd.DataFrame, keys: list[str]) -> tuple[float | None, float]:
    """Pooled standard deviation of log medians over replicates, and how many there are."""
    logs = np.log(ok["t_iter"])
    grouped = logs.groupby([ok[name] for name in keys], dropna=False) if keys else logs.groupby(np.zeros(len(ok)))
    sizes = grouped.transform("size")
    several = sizes > 1
    if not several.any():
        return None, 1.0
    residuals = (logs - grouped.transform("mean"))[several]
    freedom = int(several.sum() - grouped.ngroups + (grouped.size() == 1).sum())
    return float(np.sqrt((residuals**2).sum() / max(freedom, 1))), float(grouped.size().median())


def _verdict(between: float | None) -> Literal["quiet", "usable", "noisy", "unknown"]:
    if between is None:
        return "unknown"
    return "quiet" if between <= QUIET else "usable" if between <= USABLE else "noisy"


def _advice(between: float | None, drifting: float, others: float | None) -> str:
    """What to do next, one sentence for each thing that is wrong."""
    said = []
    if between is None:
        said.append("One replicate says nothing about noise: set replicates to 3 or more.")
    elif between > USABLE:
        said.append(f"Replicates differ by {between:.0%}: add replicates, or quieten the machine.")
    if others is not None and others > DISTURBED:
        said.append(f"Other programs took {others:.0%} of the machine: stop them and run again.")
    if drifting > 0.2:
        said.append(f"{drifting:.0%} of the trials drift: raise warmup or iterations.")
    return " ".join(said) or "Nothing needs to be done."
