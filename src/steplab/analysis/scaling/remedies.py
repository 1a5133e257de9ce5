"""What would help most against a loss, with the gain that the measured phases predict for it (S-SGD arithmetic).

A gain is a factor of the throughput. Gains of configurations that were measured are measurements; the others are
predictions, and each says how it was computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steplab.analysis.configurations import Configurations
from steplab.analysis.scaling.lost_time import Amount
from steplab.analysis.summary import Group
from steplab.core.trial import Level, accumulation
from steplab.core.units import seconds
from steplab_worker.phases import LAYERED

WORTH = 1.02  # a smaller gain is not worth a word
ACCUMULATE = 4
UNBALANCED = 1.05  # a load imbalance factor below that is noise of the ranks


@dataclass(frozen=True)
class Help:
    """One thing to do, by which factor the throughput would grow, and how that is known."""

    key: str
    action: str
    gain: float
    measured: bool  # otherwise predicted
    how: str


@dataclass(frozen=True)
class Situation:
    """What is known of a configuration with several workers: its place among the others and its parts of a step."""

    cells: Configurations
    groups: Sequence[Group]
    at: int
    base: int
    mean: dict[str, float]  # parts of the step in seconds
    exposed: float
    hidden: float
    crowd: str
    contention: Amount

    @property
    def group(self) -> Group:
        """The configuration itself."""
        return self.groups[self.at]

    @property
    def workers(self) -> int:
        """Its number of workers."""
        return int(self.cells.workers[self.at])

    def phase(self, name: str) -> float:
        """A phase's seconds, 0 where it was not measured."""
        return self.group.phases.get(name, 0.0)


def helps(now: Situation) -> tuple[Help, ...]:
    """Everything that would gain at least 2 %, the largest gain first."""
    ways = (_accumulate, _batch, _fewer_ranks, _framework, _threads, _loader, _balance, _overlap)
    worthwhile = [help_ for way in ways if (help_ := way(now)) is not None and help_.gain >= WORTH]
    return tuple(sorted(worthwhile, key=lambda way: -way.gain))


def _gain(now: Situation, saved: float) -> float:
    """The factor of the throughput when a step gets shorter by some seconds, its work unchanged."""
    step = now.mean["native"]
    return step / max(step - saved, 1e-12)


def _accumulate(now: Situation) -> Help | None:
    """Exchange and update once in k iterations; a slow rank stays slow."""
    every = accumulation(str(now.group.factors.get("strategy", "sync")))
    if every > 1 and "strategy" in now.group.factors:
        k, action = 2 * every, f"accumulate:{2 * every} instead of accumulate:{every}"
        share = 0.5
    else:
        k, action, share = ACCUMULATE, f"exchange gradients every {ACCUMULATE} batches (accumulate:{ACCUMULATE})", 0.75
    rival = _rival(now, "strategy", f"accumulate:{k}")
    if rival is not None:
        return _measured(now, rival, "accumulate", action)
    saved = share * (max(now.exposed, 0.0) + now.phase("t_u"))
    how = f"{share:.0%} of the exposed exchange and of the update are saved in each iteration; a step then learns from "
    how += f"{k} batches"
    return Help("accumulate", action, _gain(now, saved), False, how)


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
        best = max(larger, key=lambda at: now.groups[at].throughput)
        return _measured(now, best, "batch", f"{name} {now.cells.factors[best][name]} instead of {own:g}")
    step = now.mean["native"]
    grows = sum(now.phase(phase) for phase in ("t_io", "t_h2d", *LAYERED)) + now.mean["waiting"]
    doubled = step + min(grows, step)
    how = "reading, compute and waiting double with the batch, exchange and update do not"
    return Help("batch", f"twice the {name.replace('_', ' ')}", 2 * step / doubled, False, how)


def _fewer_ranks(now: Situation) -> Help | None:
    """Fewer workers, where they were measured to do more."""
    fewer = [at for at in _siblings(now, now.cells.scale) if now.cells.workers[at] < now.workers]
    best = max(fewer, key=lambda at: now.groups[at].throughput)
    n = int(now.cells.workers[best])
    return _measured(now, best, "fewer-ranks", f"{n} worker{'s' if n > 1 else ''} instead of {now.workers}")


def _framework(now: Situation) -> Help | None:
    others = _siblings(now, "framework")
    if not others:
        return None
    best = max(others, key=lambda at: now.groups[at].throughput)
    return _measured(now, best, "framework", f"{now.cells.factors[best]['framework']} as the framework")


def _threads(now: Situation) -> Help | None:
    """Cores for all: fewer threads of each rank, or fewer ranks."""
    if not now.crowd:
        return None
    lost = max(now.contention.seconds, 0.0) + max(now.mean["waiting"], 0.0)
    action = "give each rank cores of its own: ranks × threads at most the number of CPUs"
    how = f"at best the {seconds(lost)} go that ranks lose to each other, if fewer threads compute as fast"
    return Help("threads", action, _gain(now, min(lost, 0.9 * now.mean["native"])), False, how)


def _loader(now: Situation) -> Help | None:
    """Reading ahead: the step takes the longer of reading and the rest (S-SGD with I/O overlapped)."""
    step, reading = now.mean["native"], now.phase("t_io")
    rest = max(step - reading, 0.0)
    how = f"reading ({seconds(reading)}) happens during the rest of the step ({seconds(rest)}): max instead of sum"
    return Help("loader", "read ahead with more loader_workers", step / max(rest, reading, 1e-12), False, how)


def _balance(now: Situation) -> Help | None:
    """The work of the slow rank shared by all: the mean instead of the slowest."""
    if now.crowd or (now.group.lif or 1.0) < UNBALANCED:
        return None
    saved = max(now.mean["slow"], 0.0) * (now.workers - 1) / now.workers
    how = "all ranks compute for as long as they now do on average"
    return Help("balance", "find out why one rank is slower, and give it less work", _gain(now, saved), False, how)


def _overlap(now: Situation) -> Help | None:
    """Hide what back-propagation can still cover."""
    room = max(now.phase("t_b") - now.hidden, 0.0)
    saved = min(max(now.exposed, 0.0), room)
    how = f"back-propagation has room for {seconds(saved)} of the exposed exchange: max instead of sum"
    return Help(
        "overlap", "overlap the exchange with back-propagation, if the framework can", _gain(now, saved), False, how
    )


def _siblings(now: Situation, name: str) -> list[int]:
    return now.cells.alike(now.at, name) if name in now.cells.keys else []


def _rival(now: Situation, name: str, level: Level) -> int | None:
    return next((at for at in _siblings(now, name) if now.cells.factors[at].get(name) == level), None)


def _measured(now: Situation, at: int, key: str, action: str) -> Help:
    other = now.groups[at]
    how = f"measured: {other.throughput:.4g} samples/s against {now.group.throughput:.4g}"
    return Help(key, action, other.throughput / now.group.throughput, True, how)
