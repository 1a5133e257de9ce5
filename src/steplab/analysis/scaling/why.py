"""Why more workers are slower than they should be: causes with seconds and intervals, and what would help most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from steplab.analysis.configurations import Configurations, configurations
from steplab.analysis.pairs import Pairs, speedups
from steplab.analysis.scaling.fair_baseline import VIRTUAL, fair_comparisons, fair_ratios
from steplab.analysis.scaling.gradients import gradient_bytes, latency_of, ring_bytes, sharded_bytes
from steplab.analysis.scaling.lost_time import Amount, Excess, excess
from steplab.analysis.scaling.remedies import UNBALANCED, Help, Situation, helps
from steplab.analysis.summary import Group, groups_of
from steplab.core.trial import SHARDED, Level, accumulation
from steplab.core.units import more_or_less, seconds, size, span
from steplab_worker.phases import LAYERED, WORDS

Key = Literal["contention", "waiting", "communication", "bytes", "latency", "loader", "overhead"]
TITLES: dict[Key, str] = {
    "contention": "compute contention",
    "waiting": WORDS["t_wait"],
    "communication": "communication",
    "bytes": "bytes over the network",
    "latency": "latency of the exchange",
    "loader": "the data loader",
    "overhead": "overhead of each step",
}
UNSURE = "one trial of each, so nothing tells this from noise"
Told = tuple[Key, Amount, str]
TOO_MUCH = 1.1  # causes that sum to this many times the loss are said to
MOST_ANSWERS = 200  # nobody reads more


@dataclass(frozen=True)
class Cause:
    """One reason: seconds per step beyond the ideal, its share of what was lost, and a sentence.

    Where the reasons sum to more than the loss, as medians of noisy parts may, it is the share of their sum.
    """

    key: Key
    title: str
    amount: Amount
    share: float
    sure: bool
    sentence: str


@dataclass(frozen=True)
class Why:
    """The answer for one configuration with several workers."""

    factors: dict[str, Level]
    workers: int
    kind: Literal["weak", "strong"]
    t_iter: float
    t_ideal: float
    efficiency: float
    excess: Amount
    causes: tuple[Cause, ...]  # the largest first
    hidden_s: float  # communication behind back-propagation
    unexplained_s: float  # of the excess, by no phase; negative where the causes sum to more than it
    oversubscribed: str  # "4 ranks × 2 threads on 2 CPUs", or empty
    helps: tuple[Help, ...]  # the largest gain first; only where the loss is beyond noise
    answer: str
    fair: str = ""  # the comparison with one worker on the same cores, or how to make it


def why(trials: pd.DataFrame, factors: Sequence[str]) -> list[Why]:
    """An answer for configurations with several workers and a one-worker base: the least efficient, that one first."""
    cells = configurations(trials, factors)
    groups = groups_of(cells)
    return answers(cells, Pairs(groups, speedups(cells, groups)))


def answers(cells: Configurations, pairs: Pairs) -> list[Why]:
    """The same, from configurations whose groups and verdicts are known; losses beyond noise come first."""
    groups = pairs.groups
    if not len(cells):
        return []
    alone = {int(s): at for at, (s, n) in enumerate(zip(cells.series, cells.workers, strict=True)) if n == 1}
    many = np.array([at for at, n in enumerate(cells.workers) if n > 1 and int(cells.series[at]) in alone], dtype=int)
    if not len(many):
        return []
    base = np.array([alone[int(cells.series[at])] for at in many], dtype=int)
    lost = excess(cells, many, base)
    sizes = _gradients(cells, many.tolist())
    latencies = _latencies(cells, sizes, lost)
    crowded = _crowded(cells)
    worst = sorted(range(len(many)), key=lambda i: groups[int(many[i])].efficiency or 0.0)[:MOST_ANSWERS]
    fair = {str(comparison.factors): comparison.sentence for comparison in fair_comparisons(cells, groups)}
    cores = dict(list(fair_ratios(cells, groups)))
    explained = [
        replace(
            _answer(cells, pairs, lost, i, sizes.get(at), latencies.get(at), crowded[at], cores.get(at)),
            fair=fair.get(str(groups[at].factors), ""),
        )
        for i, at in ((i, int(many[i])) for i in worst)
    ]
    return sorted(explained, key=lambda answer: (not answer.excess.sure, answer.efficiency))


def _answer(
    cells: Configurations, pairs: Pairs, lost: Excess, i: int,
    gradients: float | None, latency: float | None, crowd: str, same_cores: int | None,
) -> Why:  # fmt: skip
    at = int(lost.many[i])
    group, workers = pairs.groups[at], int(cells.workers[at])
    step, total, efficiency = group.t_iter.median, _loss(group, workers), group.efficiency or 0.0
    median = {str(name): float(value) for name, value in lost.median.iloc[at].items()} | {"native": step}
    exposed, hidden = _exposed(lost, i, median)
    told = _communication(exposed, hidden, group, workers, gradients, latency)
    # A loss that may be noise has no causes; one of single trials has them, with a word of doubt.
    known = total.sure or total.low is None
    causes = _causes(lost, i, told, group, workers, crowd, total.seconds) if known else ()
    phased = sum(cause.amount.seconds for cause in causes)
    # Without phases nothing is explained; with them, whatever the native step does not share with the phased one.
    unexplained = total.seconds - phased if causes else total.seconds
    contention = lost.amount(i, "contention")
    situation = Situation(cells, pairs, at, same_cores, median, lost.trials, exposed, hidden, crowd, contention)
    return Why(
        factors=group.factors,
        workers=workers,
        kind="strong" if cells.strong[at] else "weak",
        t_iter=step,
        t_ideal=step - total.seconds,
        efficiency=efficiency,
        excess=total,
        causes=causes,
        hidden_s=hidden,
        unexplained_s=unexplained,
        oversubscribed=crowd,
        helps=helps(situation) if causes and total.sure else (),
        answer=_sentence(workers, step, total, efficiency, causes),
    )


def _loss(group: Group, workers: int) -> Amount:
    """What a step takes longer than an ideal one: the efficiency of the tables, in seconds, with its interval."""
    assert group.speedup is not None
    share, step = group.speedup.over(workers), group.t_iter.median
    ends = (None if end is None else step * (1 - end) for end in (share.high, share.low))
    return Amount(step * (1 - share.value), *ends)


def _exposed(lost: Excess, i: int, median: dict[str, float]) -> tuple[Amount, float]:
    """The exchange as the native step feels it, and what back-propagation hides of it.

    Where the overlap mode did not measure it, the phased step is longer than the native one by what overlap hides;
    that counts only as far as it stands out of the noise.
    """
    move, measured = lost.amount(i, "move"), median["exposed"]
    if np.isfinite(measured):
        amount = lost.amount(i, "exposed")
        known = np.isfinite(amount.seconds)
        return (amount if known else Amount(measured, None, None)), median["move"] - measured
    gap = lost.amount(i, "gap")
    hidden = float(np.clip(gap.seconds, 0.0, max(move.seconds, 0.0)))
    if not np.isfinite(hidden) or (gap.low is not None and gap.low <= 0):
        return move, 0.0
    shifted = (None if edge is None else edge - hidden for edge in (move.low, move.high))
    return Amount(move.seconds - hidden, *shifted), hidden


def _causes(
    lost: Excess, i: int, communication: list[Told], group: Group, workers: int, crowd: str, loss: float
) -> tuple[Cause, ...]:
    """All causes that were measured, the largest first."""
    if not np.isfinite(lost.amount(i, "contention").seconds):
        return ()
    contention, waiting = lost.amount(i, "contention"), lost.amount(i, "waiting")
    told: list[Told] = []
    if crowd:
        # A rank that is off the core holds up all others: their waiting is the same cause.
        both = _added(contention, waiting)
        told.append(("contention", both, _contention(contention, group, workers, crowd, waiting)))
    else:
        told.append(("contention", contention, _contention(contention, group, workers, "", None)))
        told.append(("waiting", waiting, _waiting(waiting, lost.amount(i, "slow"), group)))
    told += communication
    loader, overhead = lost.amount(i, "loader"), lost.amount(i, "overhead")
    told.append(("loader", loader, f"Reading a batch takes {_more(loader)} than with one worker."))
    told.append(("overhead", overhead, f"Update, copies and what no phase explains take {_more(overhead)}."))
    told = [row for row in told if np.isfinite(row[1].seconds)]  # other programs' tables have some phases, not all
    whole = max(sum(max(amount.seconds, 0.0) for _, amount, _ in told), loss) or 1.0
    causes = [
        Cause(key, TITLES[key], amount, max(amount.seconds, 0.0) / whole, amount.sure, sentence)
        for key, amount, sentence in told
    ]
    return tuple(sorted(causes, key=lambda cause: -cause.amount.seconds))


def _added(a: Amount, b: Amount) -> Amount:
    """A sum whose errors are not known to be independent: the intervals add."""
    edges = ((x + y) if x is not None and y is not None else None for x, y in ((a.low, b.low), (a.high, b.high)))
    return Amount(a.seconds + b.seconds, *edges)


def _more(amount: Amount) -> str:
    return f"{seconds(abs(amount.seconds))} {'longer' if amount.seconds >= 0 else 'less'}"


def _contention(amount: Amount, group: Group, workers: int, crowd: str, waiting: Amount | None) -> str:
    compute = sum(group.phases.get(name, 0.0) for name in LAYERED)
    strong = "global_batch_size" in group.factors
    alone = compute - amount.seconds
    share = f" ({more_or_less(compute / alone)})" if alone > 0 and compute > 0 else ""
    if crowd and waiting is not None:
        return (
            f"{crowd}: the cores are oversubscribed. Forward and backward take {_more(amount)}, and a rank that is off "
            f"its core holds up the others for {seconds(max(waiting.seconds, 0.0))} more."
        )
    if strong and amount.seconds > 0:
        return (
            f"Forward and backward take {_more(amount)} than 1/{workers} of what one worker needs: a part of them does "
            "not shrink with the batch, or the ranks compete for cores and memory."
        )
    text = f"Forward and backward of each rank take {_more(amount)}{share} than with one worker"
    return f"{text}: the ranks compete for cores, caches or memory bandwidth." if amount.seconds > 0 else f"{text}."


def _waiting(amount: Amount, slow: Amount, group: Group) -> str:
    text = f"Ranks wait {seconds(max(amount.seconds, 0.0))} for the slowest one"
    lif = f" (LIF {group.lif:.2f})" if group.lif else ""
    if slow.seconds > 0.5 * amount.seconds and (group.lif or 1.0) >= UNBALANCED:
        return f"{text}; one rank is always slower{lif}, which is {seconds(slow.seconds)} of it."
    return f"{text}; no rank is much slower than the others all the time{lif}, so it is jitter."


def _communication(
    exposed: Amount, hidden: float, group: Group, workers: int, gradients: float | None, latency: float | None
) -> list[Told]:
    """The exchange as one cause, or as latency and bytes where several sizes of gradients tell them apart."""
    whole = exposed.seconds + hidden
    rate = _rate(gradients, whole, workers, str(group.factors.get("strategy", "sync"))) if gradients else ""
    covered = f"; {seconds(hidden)} of {seconds(whole)} hide behind back-propagation" if hidden > 0 else ""
    if latency is None:
        return [("communication", exposed, f"The exchange{rate} costs {seconds(exposed.seconds)}{covered}.")]
    share = float(np.clip(latency / whole, 0.0, 1.0)) if whole > 0 else 0.0
    return [
        ("latency", _part(exposed, share), f"Messages cost {seconds(share * exposed.seconds)} whatever their size."),
        ("bytes", _part(exposed, 1 - share), f"Bytes{rate} cost {seconds((1 - share) * exposed.seconds)}{covered}."),
    ]


def _rate(gradients: float, whole: float, workers: int, strategy: str) -> str:
    """What is exchanged, and how many bytes a second each rank sends."""
    what, sent = f"{size(gradients)} of gradients", ring_bytes(gradients, workers) / accumulation(strategy)
    if strategy == SHARDED:
        sent = sharded_bytes(gradients, workers)
        what = f"{size(sent)} of parameters and gradients"
    return f" of {what} ({size(sent / whole)}/s)" if whole > 0 else ""


def _part(amount: Amount, share: float) -> Amount:
    edges = (None if edge is None else edge * share for edge in (amount.low, amount.high))
    return Amount(amount.seconds * share, *edges)


def _gradients(cells: Configurations, many: Sequence[int]) -> dict[int, float]:
    """The bytes of each configuration's gradients, where they are known.

    A network of an imported table may have the name of one of ours and another size; such records describe no machine.
    """
    here = np.isfinite(cells.values("cpus")[cells.first])
    sizes = {int(at): gradient_bytes(cells.factors[at]) for at in many if here[at]}
    return {at: known for at, known in sizes.items() if known}


def _latencies(cells: Configurations, sizes: dict[int, float], lost: Excess) -> dict[int, float]:
    """The latency of an exchange for each configuration that shares framework, workers and strategy with others."""
    alike: dict[tuple[object, ...], list[tuple[int, float, float]]] = {}
    move = lost.median["move"].tolist()
    for at, gradients in sizes.items():
        levels, workers = cells.factors[at], int(cells.workers[at])
        if move[at] > 0:
            key = (levels.get("framework"), levels.get("environment"), levels.get("strategy"), workers)
            alike.setdefault(key, []).append((at, ring_bytes(gradients, workers), move[at]))
    latencies: dict[int, float] = {}
    for rows in alike.values():
        latency = latency_of([sent for _, sent, _ in rows], [time for *_, time in rows])
        if latency is not None:
            latencies |= {at: latency for at, *_ in rows}
    return latencies


def _crowded(cells: Configurations) -> list[str]:
    """For each configuration, how its ranks and threads outnumber the CPUs of a machine; empty where they do not.

    Nothing is said of machines that the records do not describe, and of ranks on a virtual clock.
    """
    ranks, threads, cpus = (cells.values(name)[cells.first] for name in ("ranks_per_host", "threads", "cpus"))
    virtual = cells.rows["framework"].iloc[cells.first].isin(VIRTUAL).to_numpy()
    crowded = (ranks * threads > cpus) & (ranks > 1) & ~virtual
    return [
        f"{int(r)} ranks × {int(t)} thread{'s' if t > 1 else ''} on {int(c)} CPU{'s' if c > 1 else ''}" if crowd else ""
        for r, t, c, crowd in zip(ranks, threads, cpus, crowded, strict=True)
    ]


def _sentence(workers: int, step: float, total: Amount, efficiency: float, causes: Sequence[Cause]) -> str:
    """The answer in one or two sentences."""
    takes = f"With {workers} workers a step takes {seconds(step)}"
    if total.low is not None and not total.sure:
        seen = (
            "no loss is seen"
            if total.seconds <= 0
            else f"the {seconds(total.seconds)} more than ideal are within noise"
        )
        return f"{takes}; {seen} (efficiency {efficiency:.0%})."
    if total.seconds <= 0:
        return f"{takes}; no loss is seen (efficiency {efficiency:.0%}; {UNSURE})."
    single = total.low is None or total.high is None
    doubt = "" if total.low is None or total.high is None else f" ({span(total.low, total.high)})"
    text = f"{takes}, {seconds(total.seconds)}{doubt} more than ideal "
    text += f"(efficiency {efficiency:.0%})." if not single else f"(efficiency {efficiency:.0%}; {UNSURE})."
    if not causes:
        return text + " Phases were not measured, so the cause is not known: set phases = true."
    return f"{text} {_first_cause(causes[0], single)}{_too_much(causes, total)}"


def _first_cause(first: Cause, single: bool) -> str:
    if not (single or first.sure):
        return f"No single cause stands out of the noise; the largest is {first.title}. {first.sentence}"
    named = "largest part" if single else "main cause"
    return f"The {named} is {first.title}: {first.share:.0%} of what was lost. {first.sentence}"


def _too_much(causes: Sequence[Cause], total: Amount) -> str:
    """A word of doubt where the causes sum to clearly more than the loss."""
    parts = sum(max(cause.amount.seconds, 0.0) for cause in causes)
    if parts <= TOO_MUCH * total.seconds:
        return ""
    return (
        f" The parts sum to {seconds(parts)}, more than the {seconds(total.seconds)} that were lost: each is a median "
        "with noise of its own, and shares are those of the parts."
    )
