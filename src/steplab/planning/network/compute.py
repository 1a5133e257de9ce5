"""What a step computes, measured on one host: the part of a prediction that no network changes.

From trials of one worker come the step's time, how it divides into forward, backward and update, and the backward
seconds of each layer. From trials of several workers on the same host comes how much they slow each other down: the
compute phases of all ranks in each iteration, without their exchange. No trial of several hosts is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steplab.core.errors import InputError, NotEnoughData, nearest
from steplab.core.resolution import Resolved, resolve
from steplab.core.trial import SHARDED, Level, accumulation, plain_level
from steplab_worker.phases import BEFORE_EXCHANGE

Array = NDArray[np.float64]
LAYOUT = ("workers", "nodes", "ranks_per_node", "placement", "rate", "strategy", "bucket_mb", "servers")
LEAST_DOUBT = 0.02  # relative, of a median, however well trials agree: the machine is another one tomorrow


@dataclass(frozen=True)
class Tables:
    """The tables of a study that are needed."""

    trials: pd.DataFrame
    iterations: pd.DataFrame
    layers: pd.DataFrame
    factors: tuple[str, ...]


@dataclass(frozen=True)
class Compute:
    """One worker's iteration, in seconds, and what happens to it when others compute beside it."""

    config: Mapping[str, Level]  # what was measured
    forward: float  # reading and loading included
    backward: float
    update: float
    doubt: float  # relative error of the step's median
    layers: Mapping[str, float]  # backward seconds; empty if nobody measured them
    cpus: int
    threads: int
    alone: Array  # compute seconds of one worker's iterations, in their order
    beside: Mapping[int, Sequence[Array]] = field(default_factory=dict)  # ranks × iterations of each trial, by workers
    sharded_update: float | None = None  # of a part of the parameters, if sharded workers were measured
    sharded_slower: float = 1.0  # how many times as long sharded workers compute as as many others

    @property
    def resolved(self) -> Resolved:
        """The configuration with its defaults."""
        return resolve(self.config)

    def slowdown(self, ranks: int, machines: int, accumulate: int) -> float:
        """How many times as long the slowest of all ranks computes as one worker alone.

        So many ranks share each machine. What they do to each other is measured, or else follows from fewer that were
        and from the cores; the slowest of several machines is later than the median one by what single iterations
        differ.
        """
        fewer = max((measured for measured in self.beside if measured <= ranks), default=1)
        later = self._later(ranks, machines, accumulate)
        if fewer in (1, ranks):
            return later
        # More than were measured share the cores that fewer have filled, and company makes nobody faster.
        crowded = max(1.0, ranks * self.threads / max(self.cpus, fewer * self.threads))
        return max(later, crowded * self._later(fewer, machines, accumulate))

    def knows(self, ranks: int) -> bool:
        """Whether so many ranks of one machine were measured."""
        return ranks == 1 or ranks in self.beside

    def _later(self, ranks: int, machines: int, accumulate: int) -> float:
        middle = float(np.median(_sums(self.alone[None, :], accumulate)))
        if ranks == 1:
            slowest, crowded = _sums(self.alone[None, :], accumulate)[0], 1.0
        elif ranks in self.beside:
            cycles = [_sums(trial, accumulate).max(axis=0) for trial in self.beside[ranks]]
            slowest, crowded = np.concatenate(cycles), 1.0
        else:
            slowest, crowded = self._drawn(ranks, accumulate), max(1.0, ranks * self.threads / self.cpus)
        # Of independent draws, the median of the largest of n is the quantile 2^(−1/n).
        later = crowded * float(np.quantile(slowest, 0.5 ** (1 / machines))) / middle if middle else 1.0
        return max(1.0, later)  # company makes nobody faster: less than 1 is another load of the machine

    def _drawn(self, ranks: int, accumulate: int) -> Array:
        """The slowest of several ranks, as if each were as one alone is at another moment."""
        cycles = _sums(self.alone[None, :], accumulate)[0]
        rng = np.random.default_rng(0)
        return np.asarray(rng.choice(cycles, (200, ranks)).max(axis=1))


def _sums(times: Array, accumulate: int) -> Array:
    """Sums of the iterations of each accumulation, ranks × accumulations; too few iterations are repeated."""
    whole = times.shape[1] // accumulate
    if not whole:
        times, whole = np.resize(times, (len(times), accumulate)), 1
    return np.asarray(times[:, : whole * accumulate].reshape(len(times), whole, accumulate).sum(axis=2))


def measured_compute(tables: Tables, at: Mapping[str, str]) -> Compute:
    """What one host measured of a configuration; factors that vary in the study must be given."""
    rows = _single_host(tables, at)
    alone = rows[rows["workers"] == 1]
    if alone.empty:
        what = "there is no finished step of one worker on one host to start from"
        raise NotEnoughData(what, hint="run the study with workers = 1, too")
    accumulated = alone["strategy"].map(lambda strategy: accumulation(str(strategy)))
    each = int(accumulated.min())
    alone = alone[accumulated == each]  # iterations of other accumulations have another part of the update
    phased = _phased(tables, alone)
    if phased.empty:
        raise NotEnoughData("the trials of one worker have no phases", hint="run them with phases = true")
    step, doubt = _middle(alone)
    shares = phased[[*BEFORE_EXCHANGE, "t_u"]].fillna(0.0).median()
    shares["t_u"] = phased["t_u"][phased["t_u"] > 0].median() if (phased["t_u"] > 0).any() else 0.0  # once in `each`
    whole = float(shares.drop("t_u").sum() + shares["t_u"] / each)
    scale = step / whole if whole else 1.0
    first = alone.iloc[0]
    return Compute(
        config=_config(tables, first),
        forward=float(shares.drop(["t_b", "t_u"]).sum()) * scale,
        backward=float(shares["t_b"]) * scale,
        update=float(shares["t_u"]) * scale,
        doubt=doubt,
        layers=_layers(tables, alone),
        cpus=int(first["cpus"]) if pd.notna(first.get("cpus")) else 1,
        threads=int(first["threads"]),
        alone=_computed(phased),
        beside=_beside(tables, _alike(rows, at)),
        sharded_update=_sharded_update(tables, rows),
        sharded_slower=_sharded_slower(tables, rows),
    )


def _single_host(tables: Tables, at: Mapping[str, str]) -> pd.DataFrame:
    trials = tables.trials
    rows = trials[(trials["status"] == "ok") & (trials["kind"] == "step") & (trials["nodes"].fillna(1) == 1)]
    if "rate" in rows:  # the line of a single host carries nothing, but two rates are one measurement
        rows = rows.drop_duplicates("trial")
    fixed = [name for name in tables.factors if name not in LAYOUT and name in rows]
    for name in fixed:
        levels = rows[name].dropna().unique()
        chosen = [level for level in levels if at.get(name, str(level)) in (str(level), _counted(level))]
        if name in at and not chosen:
            hint = nearest(at[name], map(_counted, levels))
            raise InputError(f"{name} = {at[name]} was not measured on one host", hint=hint)
        if len(chosen) > 1:
            raise InputError(f"{name} must be given", hint=f"measured: {', '.join(map(_counted, levels))}")
        rows = rows[rows[name].isin(chosen) | rows[name].isna()] if chosen else rows
    return rows


def _phased(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    times = tables.iterations
    return times[times["trial"].isin(rows["trial"]) & (times["mode"] == "phased") & ~times["warmup"]]


def _middle(alone: pd.DataFrame) -> tuple[float, float]:
    """The median of the trials' step times, and its relative error: at least what other programs took of the CPUs."""
    times = alone["t_iter"].to_numpy(float)
    step = float(np.median(times))
    within = ((alone["t_iter_high"] - alone["t_iter_low"]) / 2 / 1.96 / alone["t_iter"]).median()
    between = float(np.std(np.log(times), ddof=1)) / np.sqrt(len(times)) if len(times) > 1 else float(within)
    taken = alone["other_cpu_share"].fillna(0.0).median() if "other_cpu_share" in alone else 0.0
    return step, max(LEAST_DOUBT, between, float(taken))


def _computed(phased: pd.DataFrame) -> Array:
    """Seconds before the exchange, iteration by iteration."""
    return phased[list(BEFORE_EXCHANGE)].fillna(0.0).sum(axis=1).to_numpy(float)


def _counted(level: object) -> str:
    """A level as it was written; a table holds whole numbers as others where some configurations have none."""
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


def _alike(rows: pd.DataFrame, at: Mapping[str, str]) -> pd.DataFrame:
    """The trials whose passes compute as those that are asked about: sharded ones gather and give up parameters."""
    sharded = rows["strategy"] == SHARDED
    wanted = rows[sharded] if at.get("strategy") == SHARDED else rows[~sharded]
    return wanted if (wanted["workers"] > 1).any() or at.get("strategy") != SHARDED else rows


def _sharded_update(tables: Tables, rows: pd.DataFrame) -> float | None:
    """The seconds of the update of a part of the parameters, if several sharded workers were measured."""
    phased = _phased(tables, rows[(rows["strategy"] == SHARDED) & (rows["workers"] > 1)])
    return None if phased.empty else float(phased["t_u"].median())


def _sharded_slower(tables: Tables, rows: pd.DataFrame) -> float:
    """How much longer sharded workers compute than as many that keep all parameters; 1 where nobody measured both."""
    sharded, whole = (_beside(tables, rows[(rows["strategy"] == SHARDED) == own]) for own in (True, False))
    ratios = [_median(sharded[workers]) / _median(whole[workers]) for workers in sharded.keys() & whole.keys()]
    return max(1.0, float(np.median(ratios))) if ratios else 1.0


def _median(trials: Sequence[Array]) -> float:
    return float(np.median(np.concatenate([trial.ravel() for trial in trials])))


def _beside(tables: Tables, rows: pd.DataFrame) -> dict[int, list[Array]]:
    compute: dict[int, list[Array]] = {}
    several = rows[rows["workers"] > 1]
    phased = _phased(tables, several)
    phased = phased.assign(computed=_computed(phased))
    for trial, workers in zip(several["trial"], several["workers"], strict=True):
        own = phased[phased["trial"] == trial]
        if not own.empty:
            ranks = own.pivot_table(index="rank", columns="iteration", values="computed").dropna(axis=1)
            compute.setdefault(int(workers), []).append(ranks.to_numpy(float))
    return compute


def _layers(tables: Tables, alone: pd.DataFrame) -> dict[str, float]:
    rows = tables.layers
    own = rows[rows["trial"].isin(alone["trial"])] if not rows.empty else rows
    medians = own.groupby("layer")["t_b"].median().to_dict() if not own.empty else {}
    return {str(name): max(0.0, float(seconds)) for name, seconds in medians.items()}


def _config(tables: Tables, row: pd.Series) -> dict[str, Level]:
    kept = [name for name in tables.factors if name not in LAYOUT and name in row and pd.notna(row[name])]
    return {name: plain_level(row[name]) for name in kept}
