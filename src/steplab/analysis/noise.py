"""How far a study's numbers can be trusted, in words: its replicates, the verdicts on its trials, what to do next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from steplab.analysis.configurations import NO_NOISE, without_noise
from steplab.analysis.environment_variables import differing
from steplab.core.units import by
from steplab.store.doubt import OTHERS, kind_of

DRIFTING = 0.10  # for tables without verdicts
QUIET, USABLE = 0.03, 0.10
MANY = 0.20  # share of doubtful trials from which something is said
CALM = "Nothing needs to be done."
FEW = "Noise differs between configurations, and the replicates are too few to know that of each: add some."
BLIND = 20.0  # times the spread of replicates; what a difference needs with known noise is 3 to 5 times it
MOST = 0.5  # share from which the study as a whole is judged by them

# What is usually wrong, and what to do about it, by the kind of a trial's doubt.
REMEDIES = {
    "spread": ("their iterations differ widely", "quieten the machine or raise iterations"),
    "drift": ("they drift", "raise warmup or iterations"),
    "outliers": ("they have many outliers", "look for periodic work (checkpoints, garbage collection, other programs)"),
    "precision": ("their median is not known well enough", "raise iterations, or max_iterations with precision"),
    "warm-up": ("they were not warm at the cap", "set warmup to a larger number"),
    "recompilation": (
        "their networks were compiled once more",
        "keep shapes the same, or set warmup to a larger number",
    ),
    "others": ("other programs took part of the machine", "stop them and run again"),
    "throttling": ("the machine was throttled", "cool it, or lift the container's CPU quota"),
}


@dataclass(frozen=True)
class Reason:
    """A kind of doubt and how many trials have it."""

    kind: str
    trials: int


@dataclass(frozen=True)
class Noise:
    """The noise of a study and what to do about it; shares, not per cent."""

    verdict: Literal["quiet", "usable", "noisy", "unknown"]
    between: float | None  # spread of replicates' medians around their configuration's
    within: float | None  # median spread of iterations inside a trial
    drifting: float  # share of trials whose times drift
    others: float | None  # share of the machine's CPU time that other programs took
    advice: str
    doubtful: int = 0  # trials with a doubt
    bad: int = 0  # of these, trials that should not be used
    reasons: tuple[Reason, ...] = ()  # the commonest first
    variables: tuple[str, ...] = ()  # environment variables that differ between trials
    caveat: str = ""  # what must be said beside every difference, if anything
    # From the verdicts, as ratios less 1: the smallest differences that this study can show.
    detectable: float | None = None  # of two single configurations
    detectable_typical: float | None = None  # of two typical ones
    detectable_effect: float | None = None  # of a factor's levels, averaged over the design
    replicates: int | None = None
    halving: int | None = None  # replicates that would halve what can be told of two configurations

    def advice_on(self, typical: float | None) -> str:
        """What to do; quiet replicates help little where they are too few to know each configuration's noise."""
        blind = self.between is not None and typical is not None and typical > BLIND * math.expm1(self.between)
        return FEW if blind and self.advice == CALM else self.advice


def judge(trials: pd.DataFrame, factors: Sequence[str]) -> Noise:
    """The verdict on a study's trials."""
    ok = trials[trials["status"] == "ok"] if len(trials) else trials
    if not len(ok):
        return Noise("unknown", None, None, 0.0, None, "No trial has been measured.")
    caveat = NO_NOISE if without_noise(ok, factors) else ""
    between = _between(ok, [name for name in factors if name in ok])
    verdicts = ok["verdict"] if "verdict" in ok else pd.Series("clean", index=ok.index)
    doubtful, bad = int(verdicts.isin(["doubtful", "bad"]).sum()), int((verdicts == "bad").sum())
    reasons = _reasons(ok)
    others, variables = _others(ok), differing(ok)
    advice = _advice(between, others, doubtful, bad, reasons, len(ok), caveat)
    return Noise(
        verdict=_verdict(between, doubtful / len(ok), bad / len(ok)),
        between=between,
        within=None if caveat else float(ok["spread"].median()),
        drifting=_drifting(ok, reasons),
        others=others,
        advice=" ".join([*advice, *_mixed(variables)]) or CALM,
        doubtful=doubtful,
        bad=bad,
        reasons=reasons,
        variables=variables,
        caveat=caveat,
    )


def _between(ok: pd.DataFrame, keys: list[str]) -> float | None:
    """Pooled standard deviation of log medians over replicates."""
    ok = ok[ok["t_iter"] > 0]  # other programs' clocks may be too coarse for a step
    logs = np.log(ok["t_iter"])
    grouped = logs.groupby([ok[name] for name in keys], dropna=False) if keys else logs.groupby(np.zeros(len(ok)))
    freedom = np.asarray(grouped.size(), dtype=float) - 1
    if not freedom.any():
        return None
    variances = np.nan_to_num(np.asarray(grouped.var(ddof=1), dtype=float))
    return float(np.sqrt((freedom * variances).sum() / freedom.sum()))


def spread_words(between: float) -> str:
    """A spread of logarithms as people read it.

    >>> spread_words(0.041), spread_words(2.3)
    ('4.2 %', 'a factor of 9.97')
    """
    return by(math.exp(between))


def _others(ok: pd.DataFrame) -> float | None:
    """Share of the machine that others took over all trials; each trial knows how many CPUs its machine had."""
    if "other_cpu_share" not in ok:
        return None
    share = pd.to_numeric(ok["other_cpu_share"])
    known = share.notna() & (ok["seconds"] > 0)
    return float(np.average(share[known], weights=ok.loc[known, "seconds"])) if known.any() else None


def _mixed(variables: Sequence[str]) -> list[str]:
    """A warning where trials of one study ran under different environment variables."""
    if not variables:
        return []
    named = ", ".join(variables)
    return [f"Environment variables differ between trials ({named}): only trials with the same values can be compared."]


def _reasons(ok: pd.DataFrame) -> tuple[Reason, ...]:
    """How many trials have each kind of doubt."""
    if "doubts" not in ok:
        return ()
    doubts = ok["doubts"].fillna("")
    kinds = Counter(kind_of(doubt) for text in doubts[doubts != ""] for doubt in text.split("; "))
    return tuple(Reason(kind, count) for kind, count in kinds.most_common())


def _drifting(ok: pd.DataFrame, reasons: Sequence[Reason]) -> float:
    if "doubts" not in ok:
        return float((ok["drift"].abs() > DRIFTING).mean())
    return sum(reason.trials for reason in reasons if reason.kind == "drift") / len(ok)


def _verdict(between: float | None, doubtful: float, bad: float) -> Literal["quiet", "usable", "noisy", "unknown"]:
    """By the replicates; a study whose trials are mostly doubtful is not quiet, one with mostly bad ones is noisy."""
    if between is None:
        return "unknown"
    if between > USABLE or bad > MOST:
        return "noisy"
    return "quiet" if between <= QUIET and doubtful <= MOST else "usable"


def _advice(
    between: float | None, others: float | None, doubtful: int, bad: int, reasons: Sequence[Reason], trials: int,
    caveat: str,
) -> list[str]:  # fmt: skip
    """What to do next, one sentence for each thing that is wrong."""
    advice = []
    if caveat:
        advice.append(f"{caveat} Import a row for each replicate or iteration, if there are any.")
    elif between is None:
        advice.append("One replicate says nothing about noise: set replicates to 3 or more.")
    elif between > USABLE:
        advice.append("Add replicates, or quieten the machine.")
    if doubtful > MANY * trials and reasons:
        advice.append(_doubted(doubtful, bad, reasons, trials))
    if others is not None and others > OTHERS and "others" not in [reason.kind for reason in reasons[:1]]:
        advice.append(f"Other programs took {others:.0%} of the machine: stop them and run again.")
    return advice


def _doubted(doubtful: int, bad: int, reasons: Sequence[Reason], trials: int) -> str:
    """How many trials are doubtful, mainly why, and what helps."""
    main = reasons[0]
    why, remedy = REMEDIES[main.kind]
    worst = f", {bad} of them bad" if bad else ""
    verb = "is" if doubtful == 1 else "are"
    return f"{doubtful} of {trials} trials {verb} doubtful{worst}, mainly because {why} ({main.trials}): {remedy}."
