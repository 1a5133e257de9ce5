"""Load imbalance: which rank waits for which other one, how much of its step, and where the slow one spends it.

The ranks meet at every exchange of gradients. Before it each rank reads, moves, divides and computes; whoever is ready
early waits (`t_wait`). A rank is called slow only if it is ready later than the waiting one consistently: the mean of
the per-iteration differences must lie beyond what their scatter explains, or so many of them must be large that it is
no chance; the latter holds where a few stalls of the machine make the scatter huge. The load imbalance factor (LIF)
knows compute times only, so a slow loader shows here and not there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steplab_worker.phases import BEFORE_EXCHANGE, LAYERED, PASSES, WORDS

Array = NDArray[np.float64]
Whole = NDArray[np.int32]
SMALLEST_SHARE = 0.02  # less waiting than this is not worth a sentence
LEVEL = 0.05  # of all pairs of ranks of a trial together
FEWEST = 3  # iterations below which a scatter is unknown
MOST_OF_IT = 0.5  # a layer is named if it makes at least this share of the phase's excess


@dataclass(frozen=True)
class Imbalance:
    """One trial whose ranks are not equally fast; `share` is of the waiting rank's step."""

    trial: str
    lif: float
    rank: int  # the one that waits longest
    waits_for: int
    share: float
    phase: str  # where the slow rank spends most of what the other waits
    phase_share: float  # of the difference between the two
    layer: str | None = None
    verdict: str | None = None  # on the trial: other programs can make ranks uneven
    host: str = ""  # of the rank that waits; empty if all ranks are on one host
    waits_for_host: str = ""

    @property
    def sentence(self) -> str:
        """The finding in words."""
        where = WORDS[self.phase]
        if self.phase in LAYERED:
            where = f"in {self.layer} {PASSES[self.phase]}" if self.layer else f"in {where}"
        mostly = "" if self.phase_share >= 0.75 else " mostly"
        early, slow = _rank(self.rank, self.host), _rank(self.waits_for, self.waits_for_host)
        waits = f"{early} waits {self.share:.0%} of its step for {slow}"
        return f"{waits}, which spends it{mostly} {where}"


def _rank(number: int, host: str) -> str:
    return f"rank {number} on {host}" if host else f"rank {number}"


def imbalance(trials: pd.DataFrame, iterations: pa.Table, layers: pa.Table, most: int | None = None) -> list[Imbalance]:
    """The trials in which a rank waits for another beyond doubt, the longest waiting first, at most `most` of them."""
    if not len(trials) or not iterations.num_rows:
        return []
    several = trials[(trials["status"] == "ok") & (trials["workers"] > 1)]
    rows = _Rows.of(iterations, several["trial"].astype(str).tolist())
    if rows is None:
        return []
    pairs = _sure(rows, _pairs(rows))
    worst = pairs.sort_values("share", ascending=False)[: most if most is not None else len(pairs)]
    names, lif = several["trial"].to_numpy(), several["lif"].to_numpy(dtype=float)
    findings = [_finding(str(names[row["trial"]]), lif[row["trial"]], row) for row in worst.to_dict("records")]
    verdicts = dict(zip(names, several.get("verdict", [None] * len(names)), strict=True))
    findings = [replace(finding, verdict=verdicts[finding.trial]) for finding in findings]
    return _with_layers(_on_hosts(findings, several), layers)


def _on_hosts(findings: list[Imbalance], trials: pd.DataFrame) -> list[Imbalance]:
    """With the hosts of both ranks, where a trial has several."""
    named = trials.get("rank_hosts", pd.Series("", index=trials.index))
    hosts = {trial: str(names).split(",") for trial, names in zip(trials["trial"], named, strict=True)}
    several = {trial: names for trial, names in hosts.items() if len(set(names)) > 1}
    return [
        replace(trial, host=several[trial.trial][trial.rank], waits_for_host=several[trial.trial][trial.waits_for])
        if trial.trial in several else trial
        for trial in findings
    ]  # fmt: skip


@dataclass(frozen=True)
class _Rows:
    """The measured phased iterations as arrays; `trial` counts the trials from 0."""

    trial: Whole
    rank: Whole
    iteration: Whole
    columns: dict[str, Array]
    ranks: int  # the most of any trial
    trials: int

    @staticmethod
    def of(iterations: pa.Table, trials: list[str]) -> _Rows | None:
        """The rows of these trials; None if there are none."""
        place = pc.index_in(iterations["trial"], pa.array(trials, pa.string()))
        phased = pc.and_(pc.equal(iterations["mode"], "phased"), pc.invert(iterations["warmup"]))
        chosen = pc.and_(pc.and_(phased, pc.is_valid(iterations["t_wait"])), pc.is_valid(place))
        numbers = pc.filter(place, chosen).to_numpy()
        if not len(numbers):
            return None
        kept = {name: pc.filter(iterations[name], chosen).to_numpy() for name in ("rank", "iteration")}
        columns = {
            name: pc.fill_null(pc.filter(iterations[name], chosen), 0.0).to_numpy()
            for name in (*BEFORE_EXCHANGE, "t_wait", "t_iter")
        }
        columns["ready"] = sum((columns[name] for name in BEFORE_EXCHANGE), np.zeros(len(numbers)))
        return _Rows(numbers, kept["rank"], kept["iteration"], columns, int(kept["rank"].max()) + 1, len(trials))

    def means(self) -> dict[str, Array]:
        """Trials × ranks: the mean of each column, NaN where there is no such rank; and how many iterations."""
        cell, shape = self.trial.astype(np.int64) * self.ranks + self.rank, (self.trials, self.ranks)
        n = np.bincount(cell, minlength=self.trials * self.ranks).reshape(shape).astype(float)
        with np.errstate(invalid="ignore"):
            sums = {name: np.bincount(cell, values, n.size).reshape(shape) for name, values in self.columns.items()}
            return {name: total / n for name, total in sums.items()} | {"n": n}


def _pairs(rows: _Rows) -> pd.DataFrame:
    """Per trial the rank that is ready last, the one that waits longest, and the phases' differences between them.

    Averages over iterations are averages over whole accumulations, of which only the last iteration waits.
    """
    means = rows.means()
    there = np.flatnonzero((means["n"] > 0).sum(axis=1) > 1)
    means = {name: values[there] for name, values in means.items()}
    slow, early = np.nanargmax(means["ready"], axis=1), np.nanargmax(means["t_wait"], axis=1)
    line = np.arange(len(there))
    step = means["t_iter"][line, early]
    share = means["t_wait"][line, early] / np.maximum(step, np.finfo(float).tiny)
    columns = {"trial": there, "rank": early, "waits_for": slow, "share": share, "step": step}
    columns |= {"ranks": (means["n"] > 0).sum(axis=1)}
    columns |= {name: means[name][line, slow] - means[name][line, early] for name in BEFORE_EXCHANGE}
    pairs = pd.DataFrame(columns)
    return pairs[(pairs["rank"] != pairs["waits_for"]) & (pairs["share"] >= SMALLEST_SHARE)]


def _sure(rows: _Rows, pairs: pd.DataFrame) -> pd.DataFrame:
    """Those whose slow rank is late beyond doubt: a t test or a sign test, at 5 % over both and all ordered pairs."""
    from scipy.special import betainc, stdtrit

    late, trial = _lateness(rows, pairs)
    n, at = np.bincount(trial, minlength=rows.trials).astype(float), pairs["trial"].to_numpy()
    level = LEVEL / (pairs["ranks"] * (pairs["ranks"] - 1)).to_numpy(dtype=float) / 2
    mean, scatter, weight = (values[at] for values in _moments(late, trial, n))
    error = scatter / np.sqrt(np.maximum(weight, 1e-9))
    beyond = mean > stdtrit(np.maximum(n[at] - 1.0, 1.0), 1.0 - level) * error
    least = np.full(rows.trials, np.nan)  # what is worth a sentence, where there is doubt
    least[at[~beyond]] = SMALLEST_SHARE * pairs["step"].to_numpy()[~beyond]
    left = np.isfinite(least[trial])
    often, _, throws = _moments((late[left] > least[trial[left]]).astype(float), trial[left], n)
    successes = (often * throws)[at]
    # The chance of so many successes in so many throws of a coin.
    consistent = betainc(np.maximum(successes, 1e-9), throws[at] - successes + 1.0, 0.5) < level
    sure: NDArray[np.bool_] = (n[at] >= FEWEST) & (beyond | consistent)
    return pairs.loc[sure]


def _moments(values: Array, trial: NDArray[np.int64], n: Array) -> tuple[Array, Array, Array]:
    """Of each trial's n values the mean, the scatter, and as how many count that resemble their neighbours."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(trial, values, len(n)) / n
        residual = values - mean[trial]
        squares = np.bincount(trial, residual**2, len(n))
        inside = trial[1:] == trial[:-1]
        products = np.bincount(trial[1:][inside], (residual[1:] * residual[:-1])[inside], len(n))
        rho = np.clip(np.nan_to_num(products / squares) + 1.0 / n, 0.0, 0.9)
        return mean, np.sqrt(squares / (n - 1.0)), n * (1 - rho) / (1 + rho)


def _lateness(rows: _Rows, pairs: pd.DataFrame) -> tuple[Array, NDArray[np.int64]]:
    """How much later than the waiting rank the slow one was ready, in order of trial and iteration, and the trials."""
    sides = []
    width = int(rows.iteration.max()) + 1
    for role in ("waits_for", "rank"):
        whose = np.full(rows.trials, -1)
        whose[pairs["trial"]] = pairs[role]
        mine = np.flatnonzero(rows.rank == whose[rows.trial])
        key = rows.trial[mine].astype(np.int64) * width + rows.iteration[mine]
        order = np.argsort(key, kind="stable")
        sides.append((key[order], rows.columns["ready"][mine[order]]))
    (slow, ready), (early, before) = sides
    if not np.array_equal(slow, early):
        both, first, second = np.intersect1d(slow, early, return_indices=True)
        return ready[first] - before[second], both // width
    return ready - before, slow // width


def _finding(trial: str, lif: float, row: dict[Any, Any]) -> Imbalance:
    differences = {name: float(row[name]) for name in BEFORE_EXCHANGE}
    phase = max(differences, key=lambda name: differences[name])
    whole = sum(max(value, 0.0) for value in differences.values())
    explained = differences[phase] / whole if whole else 0.0
    return Imbalance(trial, float(lif), int(row["rank"]), int(row["waits_for"]), float(row["share"]), phase, explained)


def _with_layers(findings: list[Imbalance], layers: pa.Table) -> list[Imbalance]:
    """With the layer that makes most of it, where the layers were timed and one stands out."""
    wanted = [finding for finding in findings if finding.phase in LAYERED]
    if not wanted or not layers.num_rows:
        return findings
    names = [finding.trial for finding in wanted]
    rows = layers.filter(pc.is_in(layers["trial"], pa.array(names, pa.string()))).to_pandas()
    about = pd.DataFrame({"trial": names, "phase": [finding.phase for finding in wanted]})
    about["waits"], about["slow"] = [finding.rank for finding in wanted], [finding.waits_for for finding in wanted]
    rows = rows.merge(about, on="trial")
    rows["t"] = np.where(rows["phase"] == "t_f", rows["t_f"], rows["t_b"])
    keys = ["trial", "layer"]
    medians = [rows[rows["rank"] == rows[side]].groupby(keys)["t"].median() for side in ("slow", "waits")]
    return _named(findings, (medians[0] - medians[1]).dropna().clip(lower=0.0))


def _named(findings: list[Imbalance], excess: pd.Series[float]) -> list[Imbalance]:
    """Name a layer if its excess is most of all layers' in that phase: a slow rank is slow everywhere."""
    if not len(excess):
        return findings
    by_trial = excess.groupby(level="trial")
    top, total = by_trial.idxmax(), by_trial.sum()
    sure = top[(total > 0) & (by_trial.max() >= MOST_OF_IT * total)]
    layer = dict(sure.tolist())
    return [replace(finding, layer=layer.get(finding.trial)) for finding in findings]
