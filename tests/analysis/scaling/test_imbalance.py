"""Imbalance: exact on a known law, silent on noise, and right about rank, phase and layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from steplab.analysis.scaling.imbalance import Imbalance, imbalance
from steplab.store import tables
from steplab_worker.phases import BEFORE_EXCHANGE

NO_LAYERS = pa.table(
    {
        "trial": pa.array([], pa.string()),
        "rank": pa.array([], pa.int32()),
        "layer": pa.array([], pa.string()),
        "t_f": pa.array([], pa.float64()),
        "t_b": pa.array([], pa.float64()),
    }
)


def measured(phases: np.ndarray) -> tuple[pd.DataFrame, pa.Table]:
    """Tables of trials × ranks × iterations × phases in seconds; who is ready early waits."""
    trials, ranks, n, _ = phases.shape
    ready = phases.sum(axis=3)
    wait = ready.max(axis=1, keepdims=True) - ready
    names = np.array([f"{i:016x}" for i in range(trials)])
    size = trials * ranks * n
    columns = {
        "trial": np.repeat(names, ranks * n),
        "mode": np.repeat("phased", size),
        "rank": np.tile(np.repeat(np.arange(ranks, dtype=np.int32), n), trials),
        "iteration": np.tile(np.arange(n, dtype=np.int32), trials * ranks),
        "warmup": np.zeros(size, dtype=bool),
        "t_iter": (ready + wait).reshape(-1),
        "t_wait": wait.reshape(-1),
    }
    columns |= {name: phases[..., at].reshape(-1) for at, name in enumerate(BEFORE_EXCHANGE)}
    about = pd.DataFrame({"trial": names, "status": "ok", "workers": ranks, "lif": 1.0})
    return about, pa.table(columns)


def noisy(rng: np.random.Generator, trials: int, ranks: int, n: int = 30, sigma: float = 0.2) -> np.ndarray:
    """Balanced phases with noise that lasts for some iterations, as a neighbour's bursts do."""
    noise = rng.standard_normal((trials, ranks, n + 4))
    lasting = (noise[..., 4:] + noise[..., 3:-1] + noise[..., 2:-2]) / np.sqrt(3)
    means = np.array([0.1, 0.0, 0.0, 0.3, 0.6])
    return means * np.exp(sigma * lasting)[..., None]


@pytest.mark.parametrize("ranks", [2, 4])
def test_noise_is_seldom_called_imbalance(ranks: int) -> None:
    found = imbalance(*measured(noisy(np.random.default_rng(1), 400, ranks)), NO_LAYERS)
    assert len(found) <= 0.10 * 400


def test_a_single_stall_is_not_called_imbalance() -> None:
    phases = noisy(np.random.default_rng(2), 1, 2, sigma=0.02)
    phases[0, 1, 7, 3] += 50.0
    assert imbalance(*measured(phases), NO_LAYERS) == []


def test_stalls_do_not_hide_a_rank_that_is_always_late() -> None:
    phases = noisy(np.random.default_rng(2), 1, 2, n=14, sigma=0.2)
    phases[0, 0, :, 4] += 1.0
    phases[0, 0, 12, 4] += 10.0
    phases[0, 0, 13, 3] += 20.0
    (found,) = imbalance(*measured(phases), NO_LAYERS)
    assert (found.rank, found.waits_for) == (1, 0)


@pytest.mark.parametrize("phase", range(len(BEFORE_EXCHANGE)))
def test_the_slow_rank_and_its_phase_are_named(phase: int) -> None:
    phases = noisy(np.random.default_rng(3), 1, 3)
    phases[:, 1, :, phase] += 0.8
    (found,) = imbalance(*measured(phases), NO_LAYERS)
    assert (found.waits_for, found.phase) == (1, BEFORE_EXCHANGE[phase])
    assert found.rank in (0, 2)


def test_the_share_is_what_the_waiting_rank_loses() -> None:
    phases = np.zeros((1, 2, 10, 5))
    phases[..., 4] = 0.69
    phases[:, 0, :, 4] = 1.0
    (found,) = imbalance(*measured(phases), NO_LAYERS)
    assert found.share == pytest.approx(0.31)
    assert found.sentence == "rank 1 waits 31% of its step for rank 0, which spends it in the backward pass"


def layered(excess: dict[str, float]) -> pa.Table:
    """Five timed iterations of two ranks; rank 0's backward takes that much longer."""
    rows = [
        {"trial": "0" * 16, "rank": rank, "layer": layer, "iteration": i, "t_f": 0.1, "t_b": 0.2 + more * (rank == 0)}
        for rank in (0, 1)
        for layer, more in excess.items()
        for i in range(5)
    ]
    return pa.Table.from_pylist(rows)


def test_a_layer_that_makes_it_is_named() -> None:
    phases = np.zeros((1, 2, 10, 5))
    phases[..., 4] = 0.69
    phases[:, 0, :, 4] = 1.0
    (found,) = imbalance(*measured(phases), layered({"conv1": 0.01, "conv2": 0.3, "dense": 0.0}))
    assert found.sentence == "rank 1 waits 31% of its step for rank 0, which spends it in conv2 backward"
    (found,) = imbalance(*measured(phases), layered({"conv1": 0.1, "conv2": 0.1, "dense": 0.1}))
    assert found.layer is None


def test_the_worst_come_first_and_no_more_than_asked() -> None:
    phases = noisy(np.random.default_rng(4), 6, 2, sigma=0.01)
    phases[:, 1, :, 3] *= np.linspace(1.5, 4.0, 6)[:, None]
    found = imbalance(*measured(phases), NO_LAYERS, most=2)
    assert [one.trial for one in found] == ["0000000000000005", "0000000000000004"]


def test_warm_up_and_native_iterations_do_not_count() -> None:
    phases = noisy(np.random.default_rng(5), 1, 2, sigma=0.01)
    phases[:, 1, :, 3] *= 3.0
    about, rows = measured(phases)
    every = rows.num_rows
    assert imbalance(about, rows.set_column(4, "warmup", pa.array([True] * every)), NO_LAYERS) == []
    assert imbalance(about, rows.set_column(1, "mode", pa.array(["native"] * every)), NO_LAYERS) == []


def test_an_empty_study_has_none() -> None:
    about, rows = measured(noisy(np.random.default_rng(6), 1, 2))
    assert imbalance(about[:0], rows, NO_LAYERS) == []
    assert imbalance(about, rows[:0], NO_LAYERS) == []


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tables.Tables:
    """A synthetic study on two and four ranks, balanced and not, with and without accumulation."""
    import subprocess
    import sys

    room = tmp_path_factory.mktemp("imbalance")
    (room / "study.toml").write_text(
        '[study]\nname = "s"\n[factors]\nframework = ["synthetic"]\nworkers = [2, 4]\nimbalance = [0.0, 0.5]\n'
        'strategy = ["sync", "accumulate:4"]\nbatch_size = [20]\ncompute_s = 0.001\nsample_s = 0.0001\n'
        "latency_s = 0.0005\n[design]\nreplicates = 1\n[measure]\niterations = 8\nwarmup = 4\n"
    )
    command = [Path(sys.executable).with_name("steplab"), "run", "study.toml", "--out", "out"]
    subprocess.run(command, cwd=room, capture_output=True, timeout=300, check=True)
    return tables.load(room / "out")


def by_configuration(loaded: tables.Tables) -> dict[tuple[int, str], Imbalance]:
    about = loaded.trials.set_index("trial")
    found = imbalance(loaded.trials, loaded.iterations, loaded.layers)
    return {(int(about.loc[one.trial, "workers"]), str(about.loc[one.trial, "strategy"])): one for one in found}


def test_only_the_imbalanced_trials_of_the_law_are_named(rehearsed: tables.Tables) -> None:
    named = {one.trial for one in by_configuration(rehearsed).values()}
    assert named == set(rehearsed.trials.loc[rehearsed.trials["imbalance"] > 0, "trial"])


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(("strategy", "cycle"), [("sync", 1), ("accumulate:4", 4)])
def test_the_law_is_found_exactly(rehearsed: tables.Tables, workers: int, strategy: str, cycle: int) -> None:
    found = by_configuration(rehearsed)[workers, strategy]
    compute, update = 0.001 + 20 * 0.0001, 1e-4
    move = 0.0005 * np.log2(workers) + 2 * (workers - 1) / workers * 61706 * 4 / 1e9
    # The law's ranks wait for the last iteration of an accumulation only.
    wait = 0.5 * compute
    assert found.lif == pytest.approx(workers * 1.5 / (workers + 0.5))
    assert found.share == pytest.approx(wait / (cycle * compute + wait + move + update))
    assert (found.waits_for, found.phase, found.layer) == (workers - 1, "t_b", None)
    assert found.phase_share == pytest.approx(2 / 3)


def test_analysis_takes_what_a_study_folder_gives(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    assert steplab("run", study_file(kind="infer"), "--out", "out").code == 0
    loaded = tables.load(tmp_path / "out")
    assert imbalance(loaded.trials, loaded.iterations, loaded.layers) == []


def slow_second_rank(hosts: str) -> Imbalance:
    phases = noisy(np.random.default_rng(3), 1, 2)
    phases[:, 1] *= 1.5
    trials, iterations = measured(phases)
    (finding,) = imbalance(trials.assign(rank_hosts=hosts), iterations, NO_LAYERS)
    return finding


def test_ranks_on_several_hosts_are_named_with_them() -> None:
    finding = slow_second_rank("anna,berta")
    assert finding.sentence.startswith("rank 0 on anna waits ")
    assert " of its step for rank 1 on berta, which" in finding.sentence


def test_ranks_on_one_host_are_named_by_number_alone() -> None:
    assert slow_second_rank("anna,anna").sentence.startswith("rank 0 waits ")
