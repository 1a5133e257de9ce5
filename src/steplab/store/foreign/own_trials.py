"""The table `trials` as steplab itself exports it: nothing of it has to be guessed."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from steplab import kinds
from steplab.core.memory_columns import MEMORY
from steplab.store.foreign.csv_columns import Roles
from steplab_worker.phases import ITERATION, MEASURED, SHARES

MARKS = frozenset({"trial", "replicate", "status", "kind", ITERATION, "throughput"})
# What a trial came to, which is no part of its configuration.
RESULTS = frozenset(
    [
        *MARKS, *MEASURED, *SHARES, *(column for kind in kinds.every() for column in kind.columns),
        "t_comm", "t_exposed", "t_hidden", "t_iter_low", "t_iter_high", "t_iter_phased", "observer_cost", "spread",
        "drift", "iterations", "lif", "verdict", "doubts", "outliers", "other_cpu_share", "throttled", *MEMORY,
        "cpu_s", "other_cpu_s", "energy_j", "energy_provenance", "loss", "seconds", "data_source", "host", "version",
        "variables", "started", "reason", "cpus", "ranks_per_host", "rank_hosts", "configuration", "compile_s",
        "recompilations",
    ]
)  # fmt: skip


def is_own(columns: Iterable[object]) -> bool:
    """Whether a table has what only steplab's own one has."""
    return set(columns) >= MARKS


def own_roles(frame: pd.DataFrame) -> Roles:
    """What its columns are: times by their names, the configuration in all that is no result."""
    names = [str(name) for name in frame.columns]
    # A batch for all workers together makes that of each follow from it.
    double = {"batch_size"} if "global_batch_size" in names else set()
    # The table tells the nodes of every trial; they are a factor where they vary.
    one_node = {"nodes"} if "nodes" in names and frame["nodes"].nunique() < 2 else set()
    factors = {name: name for name in names if name not in RESULTS | double | one_node}
    times = {name: name for name in names if name in MEASURED}
    others = sorted(set(frame["kind"].dropna()) - {"step"})
    note = f"trials of kind {', '.join(others)} are read as step times"
    units = dict.fromkeys(times, "s")
    return Roles(times, {"replicate": "replicate"}, factors, units, notes=(note,) if others else ())


def finished(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of trials that were measured."""
    return frame[frame["status"] == "ok"].reset_index(drop=True)
