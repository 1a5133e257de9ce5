"""What would help most against a loss, with the gain that the measured phases predict for it (S-SGD arithmetic).

A gain is a factor of the throughput. Gains of configurations that were measured are measurements; the others are
predictions, and each says how it was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steplab.analysis.configurations import Configurations
from steplab.analysis.pairs import Pairs
from steplab.analysis.scaling.lost_time import Amount
from steplab.analysis.statistics.differences import critical
from steplab.analysis.statistics.intervals import median_variance
from steplab.analysis.summary import Group
from steplab.core.trial import SHARDED, Level, accumulation
from steplab.core.units import rate, seconds
from steplab_worker.phases import LAYERED, SHARES

Array = NDArray[np.float64]
Parts = dict[str, float]

WORTH = 1.02  # a smaller gain is not worth a word
ACCUMULATE = 4
HIDDEN = 0.1  # of an iteration: what is left of an exchange that accumulating hides
UNBALANCED = 1.05  # a load imbalance factor below that is noise of the ranks


@dataclass(frozen=True)
class Help:
    """One thing to do, by which factor the throughput would grow with its interval, and how that is known."""

    key: str
    action: str
    gain: float
    low: float | None
    high: float | None
    measured: bool  # otherwise predicted
    how: str


@dataclass(frozen=True)
class Situation:
    """What is known of a configuration with several workers: its place among the others and its parts of a step."""

    cells: Configurations
    pairs: Pairs
    at: int
    same_cores: int | None  # the fastest single worker on the same cores
    median: Parts  # parts of the step in seconds
    trials: Mapping[str, Array]  # the same of every trial
    exposed: Amount
    hidden: float
    crowd: str
    contention: Amount

    @property
    def group(self) -> Group:
        """The configuration itself."""
        return self.pairs.groups[self.at]

    @property
    def workers(self) -> int:
        """Its number of workers."""
        return int(self.cells.workers[self.at])

    def phase(self, name: str) -> float:
        """A phase's seconds, 0 where it was not measured."""
        return self.group.phases.get(name, 0.0)

    @cached_property
    def replicates(self) -> list[Parts]:
        """The parts of each trial, with its phases; its exchange is as the native step feels it."""
        rows = self.cells.members[self.at]
        columns = {name: values[rows] for name, values in self.trials.items()}
        columns |= {name: self.cells.values(name)[rows] for name in SHARES}
        columns["exposed"] = np.maximum(columns["move"] - self.hidden, 0.0)
        filled = {name: np.nan_to_num(values).tolist() for name, values in columns.items()}
        return [{name: values[at] for name, values in filled.items()} for at in range(len(rows))]


def helps(now: Situation) -> tuple[Help, ...]:
    """Everything that would gain at least 2 %, and surely something; the largest gain first."""
    ways = (
        _accumulate, _whole, _network, _batch, _fewer_ranks, _all_cores, _framework, _threads, _loader, _balance,
        _overlap,
    )  # fmt: skip
    offered = [help_ for way in ways if (help_ := way(now)) is not None and help_.gain >= WORTH]
    return tuple(sorted((way for way in offered if way.low is not None and way.low > 1), key=lambda way: -way.gain))


def _predicted(now: Situation, key: str, action: str, how: str, gain: Callable[[Parts], float]) -> Help:
    """A gain computed from the parts: from their medians, and its spread from that of each replicate's own gain."""
    here = now.median | {name: now.phase(name) for name in SHARES}
    here["exposed"] = max(now.exposed.seconds, 0.0)
    value, each = gain(here), np.log([max(gain(replicate), 1e-9) for replicate in now.replicates])
    n = len(each)
    if n < 2:
        return Help(key, action, value, None, None, False, how)
    half = float(critical(n - 1.0, 1)) * float(each.std(ddof=1)) * float(np.sqrt(median_variance(n)))
    low, high = float(np.exp(np.log(value) - half)), float(np.exp(np.log(value) + half))
    return Help(key, action, value, low, high, False, how)


def _shorter(step: float, saved: float) -> float:
    """The factor of the throughput when a step gets shorter by some seconds, its work unchanged."""
    return step / max(step - saved, 0.1 * step, 1e-12)


def _accumulate(now: Situation) -> Help | None:
    """Exchange and update once in k iterations; a slow rank stays slow."""
    if now.group.factors.get("strategy") == SHARDED:  # it would have to give up sharding, too
        return None
    every = accumulation(str(now.group.factors.get("strategy", "sync")))
    if every > 1 and "strategy" in now.group.factors:
        k, action = 2 * every, f"accumulate:{2 * every} instead of accumulate:{every}"
        share = 0.5
    else:
        k, action, share = ACCUMULATE, f"exchange gradients every {ACCUMULATE} batches (accumulate:{ACCUMULATE})", 0.75
    rival = _rival(now, "strategy", f"accumulate:{k}")
    if rival is not None:
        return _measured(now, rival, "accumulate", action)
    how = f"{share:.0%} of the exposed exchange and of the update are saved in each iteration; a step then learns from "
    how += f"{k} batches"

    def gain(parts: Parts) -> float:
        return _shorter(parts["native"], share * (parts["exposed"] + parts["t_u"]))

    return _predicted(now, "accumulate", action, how, gain)


def _whole(now: Situation) -> Help | None:
    """Sharded workers that keep all parameters instead, where that was measured."""
    rival = _rival(now, "strategy", "sync") if now.group.factors.get("strategy") == SHARDED else None
    action = "all parameters in every worker (sync), if they fit into memory"
    return None if rival is None else _measured(now, rival, "whole", action)


def _network(now: Situation) -> Help | None:
    """Lines twice as fast, where ranks are on several hosts: half of the exchange, if its bytes take most of it."""
    hosts = now.cells.values("nodes")[now.cells.first[now.at]] if "nodes" in now.cells.rows else 1.0
    if not hosts > 1:
        return None
    k = hiding_accumulation(now.median["native"], max(now.exposed.seconds, 0.0))
    how = "half of the exchange goes, the exposed part first, if bytes take most of it and not latency"
    how += f"; accumulate:{k} would hide it instead, below {HIDDEN:.0%} of an iteration" if k > 1 else ""

    def gain(parts: Parts) -> float:
        return _shorter(parts["native"], min(parts["exposed"], parts["move"] / 2))

    return _predicted(now, "network", "a network twice as fast between the hosts", how, gain)


def hiding_accumulation(step: float, exposed: float) -> int:
    """The smallest power of 2 that leaves at most a tenth of an iteration to an exchange now exposed so long.

    >>> hiding_accumulation(1.0, 0.05), hiding_accumulation(1.0, 0.5)
    (1, 16)
    """
    k, rest = 1, max(step - exposed, 1e-12)
    while exposed / k > HIDDEN * (rest + exposed / k) and k < 1024:
        k *= 2
    return k


def _batch(now: Situation) -> Help | None:
    """Twice the batch: exchange, update and overhead are paid once for twice the samples."""
    name = "global_batch_size" if now.cells.strong[now.at] else "batch_size"
    own = now.group.factors.get(name, now.cells.batch[now.at])
    assert isinstance(own, int | float)
    larger = [
        at
        for at in _siblings(now, name)
        if isinstance(level := now.cells.factors[at].get(name), int | float) and level > own
    ]
    if larger:
        best = max(larger, key=lambda at: now.pairs.groups[at].rate)
        return _measured(now, best, "batch", f"{name} {now.cells.factors[best][name]} instead of {own:g}")
    how = "reading, compute and waiting double with the batch, exchange and update do not"

    def gain(parts: Parts) -> float:
        step = parts["native"]
        grows = sum(parts[phase] for phase in ("t_io", "t_h2d", *LAYERED)) + parts["waiting"]
        return 2 * step / (step + min(grows, step))

    return _predicted(now, "batch", f"twice the {name.replace('_', ' ')}", how, gain)


def _fewer_ranks(now: Situation) -> Help | None:
    """Fewer workers, where they were measured to do more."""
    fewer = [at for at in _siblings(now, now.cells.scale) if now.cells.workers[at] < now.workers]
    best = max(fewer, key=lambda at: now.pairs.groups[at].rate)
    n = int(now.cells.workers[best])
    return _measured(now, best, "fewer-ranks", f"{n} worker{'s' if n > 1 else ''} instead of {now.workers}")


def _all_cores(now: Situation) -> Help | None:
    """One worker with the cores of all, where that was measured to do more."""
    base = now.same_cores
    if base is None or now.cells.series[base] == now.cells.series[now.at]:
        return None
    threads = int(now.cells.values("threads")[now.cells.first[base]])
    return _measured(now, base, "all-cores", f"one worker with {threads} threads instead of {now.workers} workers")


def _framework(now: Situation) -> Help | None:
    others = _siblings(now, "framework")
    if not others:
        return None
    best = max(others, key=lambda at: now.pairs.groups[at].rate)
    return _measured(now, best, "framework", f"{now.cells.factors[best]['framework']} as the framework")


def _threads(now: Situation) -> Help | None:
    """Cores for all: fewer threads of each rank, or fewer ranks."""
    if not now.crowd:
        return None
    action = "give each rank cores of its own: ranks × threads at most the number of CPUs"
    lost = max(now.contention.seconds, 0.0) + max(now.median["waiting"], 0.0)
    how = f"at best the {seconds(lost)} go that ranks lose to each other, if fewer threads compute as fast"
    alone = now.median["contention"] - now.contention.seconds

    def gain(parts: Parts) -> float:
        return _shorter(parts["native"], max(parts["contention"] - alone, 0.0) + max(parts["waiting"], 0.0))

    return _predicted(now, "threads", action, how, gain)


def _loader(now: Situation) -> Help | None:
    """Reading ahead: the step takes the longer of reading and the rest (S-SGD with I/O overlapped)."""
    reading = now.phase("t_io")
    rest = max(now.median["native"] - reading, 0.0)
    how = f"reading ({seconds(reading)}) happens during the rest of the step ({seconds(rest)}): max instead of sum"

    def gain(parts: Parts) -> float:
        return parts["native"] / max(parts["native"] - parts["t_io"], parts["t_io"], 1e-12)

    return _predicted(now, "loader", "read ahead with more loader_workers", how, gain)


def _balance(now: Situation) -> Help | None:
    """The work of the slow rank shared by all: the mean instead of the slowest."""
    if now.crowd or (now.group.lif or 1.0) < UNBALANCED:
        return None
    share = (now.workers - 1) / now.workers
    how = "all ranks compute for as long as they now do on average"

    def gain(parts: Parts) -> float:
        return _shorter(parts["native"], max(parts["slow"], 0.0) * share)

    return _predicted(now, "balance", "find out why one rank is slower, and give it less work", how, gain)


def _overlap(now: Situation) -> Help | None:
    """Hide what back-propagation can still cover."""

    def saved(parts: Parts) -> float:
        return min(parts["exposed"], max(parts["t_b"] - now.hidden, 0.0))

    here = {"exposed": max(now.exposed.seconds, 0.0), "t_b": now.phase("t_b")}
    how = f"back-propagation has room for {seconds(saved(here))} of the exposed exchange: max instead of sum"
    action = "overlap the exchange with back-propagation, if the framework can"
    return _predicted(now, "overlap", action, how, lambda parts: _shorter(parts["native"], saved(parts)))


def _siblings(now: Situation, name: str) -> list[int]:
    return now.cells.alike(now.at, name) if name in now.cells.keys else []


def _rival(now: Situation, name: str, level: Level) -> int | None:
    return next((at for at in _siblings(now, name) if now.cells.factors[at].get(name) == level), None)


def _measured(now: Situation, at: int, key: str, action: str) -> Help:
    difference, other = now.pairs.between(at, now.at), now.pairs.groups[at]
    how = f"measured: a step of {seconds(other.t_iter.median)} against {seconds(now.group.t_iter.median)}"
    if other.throughput is not None and now.group.throughput is not None:
        how = f"measured: {rate(other.throughput)} samples/s against {rate(now.group.throughput)}"
    return Help(key, action, difference.ratio, difference.low, difference.high, True, how)
