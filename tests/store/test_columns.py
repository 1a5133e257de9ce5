"""Rows of the table `trials`: many at once are what each alone would be, and what a person computes by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from steplab.core.memory_columns import MEMORY
from steplab.core.record import DataInfo, HeldBytes, Mode, Rank, Record
from steplab.core.trial import trial_id
from steplab.store.columns import trial_row, trial_rows
from steplab.store.raw import Raw
from steplab_worker.phases import TIMED


def mode(rng: np.random.Generator, iterations: int, warmup: int, phases: tuple[str, ...]) -> Mode:
    columns = {name: rng.lognormal(-5, 0.2, warmup + iterations).tolist() for name in phases}
    total = np.sum(list(columns.values()), axis=0) if phases else rng.lognormal(-3, 0.2, warmup + iterations)
    return Mode(columns={"t_iter": total.tolist(), **columns}, warmup=[True] * warmup + [False] * iterations)


def record(seed: int, workers: int, iterations: int, phased: bool = True, **changes: Any) -> Record:
    """A trial of several ranks with random times."""
    rng = np.random.default_rng(seed)
    config = {"framework": "synthetic", "workers": workers, "batch_size": 8 + seed}
    ranks = []
    for rank in range(workers):
        modes = {"native": mode(rng, iterations, seed % 3, ())}
        if phased:
            modes["phased"] = mode(rng, iterations, 1, TIMED)
        ranks.append(Rank(rank=rank, host="h", pid=1, cpu_s=1.0, peak_bytes=1e6, loss=0.5, modes=modes))
    fields: dict[str, Any] = {
        "study": "s", "trial": trial_id(config, 0), "replicate": 0, "kind": "step", "status": "ok", "config": config,
        "resolved": config | {"strategy": "sync"}, "measure": {}, "ranks": ranks, "threads": 1,
        "machine": {"cpus": 2}, "data": DataInfo(name="mnist", source="none", samples=0), "started": "", "seconds": 1.0,
        "command": "",
    }  # fmt: skip
    return Record.model_validate(fields | changes)


def test_many_rows_at_once_are_those_of_each_record_alone() -> None:
    shapes = [(1, 9, True), (2, 9, True), (1, 9, False), (2, 30, True), (3, 1, True)]
    made = [record(seed, *shapes[seed % len(shapes)]) for seed in range(25)]
    made.append(record(30, 1, 5, status="failed", reason="it broke", ranks=[]))
    made.append(record(31, 2, 12, resolved={"strategy": "accumulate:4", "batch_size": 8, "workers": 2}))
    together, alone = pd.DataFrame(trial_rows([Raw(one) for one in made])), [trial_row(one) for one in made]
    pd.testing.assert_frame_equal(together, pd.DataFrame(alone)[together.columns], rtol=1e-12)


def test_a_row_is_what_one_computes_by_hand() -> None:
    one = record(7, 2, 5)
    row, native = trial_row(one), np.array([rank.modes["native"].columns["t_iter"][1:] for rank in one.ranks])
    assert row["t_iter"] == pytest.approx(np.median(native.mean(axis=0)))
    phased = [
        {name: np.array(values[1:]) for name, values in rank.modes["phased"].columns.items()} for rank in one.ranks
    ]
    total = np.mean([rank["t_iter"] for rank in phased], axis=0)
    inner = np.argsort(total)[1:4]  # between the quartiles of five
    for name in ("t_f", "t_b", "t_io"):
        assert row[name] == pytest.approx(np.mean([rank[name][inner] for rank in phased]))
    compute = [np.median(rank["t_f"] + rank["t_b"]) for rank in phased]
    assert row["lif"] == pytest.approx(2 * max(compute) / sum(compute))
    parts = ("t_io", "t_h2d", "t_md", "t_f", "t_b", "t_c", "t_u", "t_other")
    assert sum(row[name] for name in parts) == pytest.approx(row["t_iter_phased"])


def test_a_trial_without_a_measured_iteration_has_no_times() -> None:
    only = Mode(columns={"t_iter": [0.1, 0.2]}, warmup=[True, True])
    rank = Rank(rank=0, host="h", pid=1, cpu_s=1.0, peak_bytes=1e6, loss=0.5, modes={"native": only})
    row = trial_row(record(1, 1, 3, ranks=[rank]))
    assert np.isnan(row["t_iter"])
    assert row["verdict"] is None


def test_memory_is_that_of_the_rank_that_took_most_and_what_can_be_told_of_it() -> None:
    plain = record(1, 2, 3)
    told = HeldBytes(parameters=4e5, state=8e5)
    ranks = [plain.ranks[0], plain.ranks[1].model_copy(update={"peak_bytes": 5e6, "before_bytes": 2e6, "held": told})]
    row = trial_row(record(1, 2, 3, ranks=ranks))
    assert [row[name] for name in MEMORY[:4]] == [5e6, 2e6, 4e5, 8e5]
    assert all(np.isnan(row[name]) for name in MEMORY[4:])  # no GPU told anything
    assert np.isnan(trial_row(plain)["memory_before_bytes"])  # a record of an earlier version


def test_where_nobody_looked_at_memory_there_is_none() -> None:
    imported = record(1, 1, 3).ranks[0].model_copy(update={"peak_bytes": 0.0})
    row = trial_row(record(1, 1, 3, ranks=[imported]))
    assert all(np.isnan(row[name]) for name in MEMORY)


def test_a_process_with_several_workers_counts_as_so_many_ranks_and_hides_their_imbalance() -> None:
    one = record(9, 4, 5)
    several = {"resolved": one.resolved.model_dump() | {"workers": 4}, "config": one.config}
    row = trial_row(record(9, 4, 5, ranks=one.ranks[:1], **several))
    assert (row["ranks_per_host"], row["rank_hosts"]) == (4, "h")
    assert np.isnan(row["lif"]) and trial_row(one)["lif"] >= 1
    assert trial_row(record(9, 4, 5, ranks=one.ranks[:1], measure={"imported": "csv"}))["ranks_per_host"] == 1
