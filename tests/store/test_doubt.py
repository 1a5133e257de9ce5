"""The verdict on a trial: each doubt is raised by its cause, names its number, and is absent without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

from steplab.core.record import DataInfo, Mode, Rank, Record
from steplab.core.trial import trial_id
from steplab.kinds.blocks import is_precise
from steplab.store import tables
from steplab.store.columns import trial_row
from steplab.store.doubt import OUTLIERS, kind_of
from steplab.store.series import outlier_share

CONFIG = {"framework": "torch", "workers": 1}
CALM = np.random.default_rng(0).lognormal(0, 0.03, 60)


def record(times: Any = CALM, warmup: Any = (), **changes: object) -> Record:
    """A record of one rank with these times in seconds."""
    native = Mode(
        columns={"t_iter": [*map(float, warmup), *map(float, times)]},
        warmup=[True] * len(warmup) + [False] * len(times),
    )
    rank = Rank(rank=0, host="h", pid=1, cpu_s=0.1, peak_bytes=1.0, loss=None, modes={"native": native})
    fields = {
        "study": "s",
        "trial": trial_id(CONFIG, 0),
        "replicate": 0,
        "kind": "step",
        "status": "ok",
        "config": CONFIG,
        "resolved": {"batch_size": 32, "workers": 1, "strategy": "sync", "framework": "torch"},
        "measure": {"iterations": len(times), "warmup": 3, "precision": None, "max_iterations": 1000},
        "machine": {"cpus": 2},
        "ranks": [rank],
        "threads": 1,
        "data": DataInfo(name="mnist", source="real", samples=0),
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 10.0,
        "command": "steplab run …",
        "other_cpu_s": 0.2,
        "throttled": "",
    }
    return Record.model_validate(fields | changes)


def doubts(one: Record) -> dict[str, str]:
    """The doubts of a record's row by their kind."""
    text = trial_row(one)["doubts"]
    return {kind_of(part): part for part in text.split("; ") if part}


def test_a_calm_trial_is_clean() -> None:
    row = trial_row(record())
    assert (row["verdict"], row["doubts"]) == ("clean", "")
    assert row["other_cpu_share"] == pytest.approx(0.01)
    assert row["throttled"] == ""


def test_wide_iterations_are_doubted() -> None:
    rng = np.random.default_rng(1)
    assert "differ by 3" in doubts(record(rng.lognormal(0, 0.35, 400)))["spread"]
    assert trial_row(record(rng.lognormal(0, 0.9, 400)))["verdict"] == "bad"


def test_a_rise_is_doubted_with_its_size() -> None:
    found = doubts(record(CALM * np.linspace(1.0, 1.15, 60)))
    assert "rises by 1" in found["drift"]
    # Where the times rise, no number of iterations tells their median.
    assert set(found) == {"drift", "precision"}


def test_a_change_of_level_is_doubted_with_its_place() -> None:
    found = doubts(record(CALM * np.where(np.arange(60) < 30, 1.0, 0.8)))
    assert "falls by 19%" in found["drift"]
    assert " of 60 on" in found["drift"]


def test_few_outliers_are_no_doubt_and_many_are() -> None:
    few, many = CALM.copy(), CALM.copy()
    few[[10, 40]] = 3.0
    many[::7] = 3.0
    assert not doubts(record(few))
    assert "15%" in doubts(record(many))["outliers"]


def test_equal_times_have_no_outliers() -> None:
    assert outlier_share(np.ones(20)) == 0.0
    assert outlier_share(np.array([1.0] * 19 + [1.001])) == 0.0
    assert outlier_share(np.array([1.0] * 9 + [2.0])) == pytest.approx(OUTLIERS)


def test_what_others_took_is_a_share_of_the_machine() -> None:
    assert "took 40% of the machine" in doubts(record(other_cpu_s=8.0))["others"]
    assert trial_row(record(other_cpu_s=8.0))["verdict"] == "doubtful"
    assert trial_row(record(other_cpu_s=14.0))["verdict"] == "bad"
    assert trial_row(record(other_cpu_s=None))["other_cpu_share"] is None


def test_throttling_is_one_doubt_however_much_was_seen() -> None:
    found = doubts(record(throttled="held back in 3 of 9 periods; 2 thermal events"))
    assert found["throttling"] == "throttling: held back in 3 of 9 periods, 2 thermal events"
    assert not doubts(record(throttled=None))


def test_a_network_that_was_compiled_again_is_doubted_and_its_time_is_known() -> None:
    calm = record()
    assert np.isnan(trial_row(calm)["compile_s"]) and trial_row(calm)["recompilations"] == 0
    rank = calm.ranks[0].model_copy(update={"compile_s": 6.5, "recompiled": ["a size; of x", "a stride"]})
    again = calm.model_copy(update={"ranks": [rank]})
    row = trial_row(again)
    assert (row["compile_s"], row["recompilations"], row["verdict"]) == (6.5, 2, "doubtful")
    assert doubts(again)["recompilation"].endswith("compiled 2 times more, first because of a size, of x")


def test_a_precision_that_was_not_reached_is_doubted() -> None:
    measure = {"iterations": 60, "warmup": 3, "precision": 0.001, "max_iterations": 60}
    assert "±0.1% was asked" in doubts(record(measure=measure))["precision"]
    assert not doubts(record(measure=measure | {"precision": 0.05}))


def test_a_precision_is_doubted_exactly_where_iterations_would_have_gone_on() -> None:
    rng = np.random.default_rng(5)
    for times in np.exp(0.1 * lfilter([0.7], [1.0, -0.7], rng.standard_normal((40, 60)))):
        asked = 0.05
        measure = {"iterations": 60, "warmup": 3, "precision": asked, "max_iterations": 60}
        assert ("precision" in doubts(record(times, measure=measure))) == (not is_precise(times, asked))


def test_a_single_time_has_no_interval_and_no_doubt_of_its_own() -> None:
    row = trial_row(record([1.0], measure={}))
    assert np.isnan([row["t_iter_low"], row["t_iter_high"]]).all()
    assert row["doubts"] == ""


def test_a_median_that_nobody_knows_is_doubted() -> None:
    assert "±27%" in doubts(record([1.0, 1.6, 1.1]))["precision"]


def test_a_warm_up_that_met_its_cap_unsteady_is_doubted() -> None:
    measure = {"iterations": 60, "warmup": "auto", "precision": None, "max_iterations": 60}
    falling = [3 * 0.97**i for i in range(40)]
    assert "after 40 iterations" in doubts(record(warmup=falling, measure=measure))["warm-up"]
    assert not doubts(record(warmup=CALM[:40], measure=measure))
    assert not doubts(record(warmup=falling[:10], measure=measure))
    assert not doubts(record(warmup=falling, measure=measure | {"warmup": 40}))


def test_a_trial_that_failed_has_no_verdict() -> None:
    row = trial_row(record(status="failed", ranks=[]))
    assert (row["verdict"], row["doubts"]) == (None, "")


def test_calm_trials_are_seldom_doubted() -> None:
    rng = np.random.default_rng(2)
    verdicts = [trial_row(record(rng.lognormal(0, 0.1, 50)))["verdict"] for _ in range(300)]
    assert verdicts.count("clean") >= 0.95 * len(verdicts)


def test_the_verdict_stands_in_the_table(tmp_path: Path, steplab: Callable[..., Any], study_file: Any) -> None:
    path = study_file(noise=[0.01, 0.6], measure="precision = 0.1\nmax_iterations = 400")
    assert steplab("run", path, "--out", "out").code == 0
    trials = tables.load(tmp_path / "out").trials.set_index("noise")
    assert set(trials.loc[0.01, "verdict"]) == {"clean"}
    assert set(trials.loc[0.6, "verdict"]) <= {"doubtful", "bad"}
    assert trials.loc[0.6, "doubts"].str.startswith("spread: ").all()
