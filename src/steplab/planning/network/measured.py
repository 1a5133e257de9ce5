"""The profile of a network from trials of kind `exchange`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import pandas as pd

from steplab.core import catalogue
from steplab.core.errors import NotEnoughData
from steplab.planning.network.profile import Collective, Pair, Point, Profile

SHORTEST_S = 1e-9  # that a clock can tell


def profile_of(trials: pd.DataFrame, name: str) -> Profile:
    """What finished exchanges tell; replicates of one size are joined, their intervals with them."""
    done = trials[(trials["status"] == "ok") & (trials["kind"] == "exchange") & (trials["workers"] > 1)]
    if done.empty:
        raise NotEnoughData("no exchange among several ranks ended well", hint="`steplab status` tells why")
    if "message_bytes" not in done:
        raise NotEnoughData("the exchanges do not vary message_bytes", hint="use network = 'array'")
    framework = str(done["framework"].iloc[0])
    rows = done.assign(rate=done["rate"].fillna("") if "rate" in done else "")
    return Profile(
        name=name,
        framework=framework,
        backend=catalogue.framework(framework).exchange.by,
        one_machine=bool(((rows["nodes"] > 1) & (rows["ranks_per_host"] == rows["workers"])).any()),
        measured=str(rows["started"].min()),
        ranks=[_collective(key, part) for key, part in rows.groupby(["rate", "workers", "nodes"])],
        pairs=[_pair(str(rate), part) for rate, part in rows[rows["pair_s"] > 0].groupby("rate")],
    )


def _collective(key: Hashable, rows: pd.DataFrame) -> Collective:
    assert isinstance(key, tuple)
    rate, ranks, nodes = key
    sizes = [
        _point(size, part["t_iter"], part["t_iter_low"], part["t_iter_high"], float(part["exchange_cpu_s"].median()))
        for size, part in _by_size(rows)
    ]
    return Collective(rate=str(rate), ranks=int(ranks), nodes=int(nodes), sizes=sizes)


def _pair(rate: str, rows: pd.DataFrame) -> Pair:
    """The line from the first rank to the last: where they are on two hosts, if there are such trials."""
    rows = rows[rows["nodes"] > 1] if (rows["nodes"] > 1).any() else rows
    sizes = [
        _point(size, part["pair_s"], part["pair_low_s"], part["pair_high_s"], 0.0) for size, part in _by_size(rows)
    ]
    return Pair(rate=rate, sizes=sizes)


def _by_size(rows: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    sizes = rows["message_bytes"].astype(int)
    for size in sorted(set(sizes.tolist())):
        yield size, rows[sizes == size]


def _point(size: int, seconds: pd.Series, low: pd.Series, high: pd.Series, cpu: float) -> Point:
    middle = max(float(seconds.median()), SHORTEST_S)
    ends = max(min(float(low.min()), middle), SHORTEST_S), max(float(high.max()), middle)
    return Point(bytes=size, seconds=middle, low=ends[0], high=ends[1], cpu_seconds=max(0.0, cpu))
