"""Trials of the synthetic law without processes: the law's times, put into records, read as the store reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from steplab.core.record import DataInfo, Mode, Rank, Record
from steplab.core.resolution import graph_of, resolve
from steplab.core.trial import Level, trial_id
from steplab.store.columns import trial_row
from steplab_worker.adapters.synthetic import BEFORE_MEETING, DECLARATION, DRAWN, TimeLaw
from steplab_worker.job import TrialJob

Config = Mapping[str, Level]
NAMES = ("t_io", "t_h2d", "t_md", "t_f", "t_b", "t_wait", "t_move", "t_u")


def law_times(config: Config, seed: int, chunk: int = 0, **own: float) -> tuple[np.ndarray, np.ndarray]:
    """Native step times (ranks × iterations) and phases (ranks × iterations × NAMES) of a configuration."""
    resolved = resolve(config)
    options = {**resolved.framework_options, **own}
    graph = graph_of(resolved)
    assert graph is not None
    job = TrialJob(
        trial=str(seed), replicate=0, kind="step", config=dict(config), network=resolved.network, network_options={},
        input_shape=(1,), classes=10, dataset="mnist", data_folder="", batch_size=resolved.batch_size, accumulate=1,
        strategy="sync", optimizer="sgd", learning_rate=0.1, loader_workers=0, prefetch=1, options=options,
        phases=True, memory_limit_bytes=0, seed=seed,
    )  # fmt: skip
    law = TimeLaw(job, resolved.workers, 4 * graph.parameters)
    ranks = np.stack([law._noisy(rank, chunk) for rank in range(resolved.workers)])
    ranks[:, :, DRAWN.index("t_move")] = ranks[0, :, DRAWN.index("t_move")]
    ready = ranks[:, :, BEFORE_MEETING].sum(axis=2)
    wait = ready.max(axis=0) - ready
    columns = dict(zip(DRAWN, np.moveaxis(ranks, 2, 0), strict=True), t_wait=wait)
    phases = np.stack([columns[name] for name in NAMES], axis=2)
    hidden = np.minimum(columns["t_move"], options["overlap"] * columns["t_b"])
    return phases.sum(axis=2) - hidden, phases


def record_of(config: Config, replicate: int, seed: int, iterations: int, **own: float) -> Record:
    """A finished trial of the law; `own` overrides options without being factors."""
    resolved = resolve(config)
    native, phases = law_times(config, seed, **own)
    warmup = [False] * iterations
    ranks = []
    for rank in range(resolved.workers):
        columns = {name: phases[rank, :iterations, at].tolist() for at, name in enumerate(NAMES)}
        columns["t_iter"] = phases[rank, :iterations].sum(axis=1).tolist()
        modes = {
            "native": Mode(columns={"t_iter": native[rank, :iterations].tolist()}, warmup=warmup),
            "phased": Mode(columns=columns, warmup=warmup),
        }
        ranks.append(Rank(rank=rank, host="h", pid=1, cpu_s=0.0, peak_bytes=1.0, loss=None, modes=modes))
    return Record(
        study="law", trial=trial_id(config, replicate), replicate=replicate, kind="step", status="ok",
        config=dict(config), resolved=_resolved(config), measure={}, ranks=ranks, threads=1,
        machine={"cpus": 64}, data=DataInfo(name="none", source="none", samples=0), started=f"{replicate:03d}",
        seconds=1.0, command="",
    )  # fmt: skip


def _resolved(config: Config) -> dict[str, Any]:
    resolved = resolve(config)
    names = ("framework", "network", "dataset", "batch_size", "workers", "threads", "strategy", "optimizer")
    return {name: getattr(resolved, name) for name in names}


Synthetic = Callable[..., pd.DataFrame]


@pytest.fixture(scope="session")
def synthetic() -> Synthetic:
    """The table `trials` of a synthetic study: every configuration, each with its replicates."""

    def make(
        configs: Sequence[Config], *, replicates: int = 3, seed: int = 0, iterations: int = 40,
        own: Callable[[Config], dict[str, float]] = lambda config: {},
    ) -> pd.DataFrame:  # fmt: skip
        rng = np.random.default_rng(seed)
        rows = [
            trial_row(
                record_of(
                    {"framework": "synthetic", **config}, r, int(rng.integers(1 << 31)), iterations, **own(config)
                )
            )
            for config in configs
            for r in range(replicates)
        ]
        made = pd.DataFrame(rows)
        made.attrs["factors"] = list(dict.fromkeys(["framework", *(name for config in configs for name in config)]))
        return made

    return make


Levels = Mapping[str, Sequence[Any]]
LENET5_BYTES = 4 * 61706


def law_seconds(config: Mapping[str, Any]) -> float:
    """The step time of the last rank without noise: its phases, nothing hidden."""
    options = {name: config.get(name, said["default"]) for name, said in DECLARATION["factors"].items()}
    workers = int(config.get("workers", 1))
    job = SimpleNamespace(options=options, batch_size=int(config.get("batch_size", 32)))
    phases = TimeLaw(job, workers, LENET5_BYTES).means(workers - 1)
    exchanged = 4 if config.get("strategy") == "accumulate:4" else 1
    return float(sum(phases[:4]) + sum(phases[4:]) / exchanged)


def made_trials(
    levels: Levels,
    replicates: int = 5,
    noise: float = 0.0,
    seed: int = 0,
    blocks: float = 0.0,
    law: Callable[[Mapping[str, Any]], float] = law_seconds,
) -> pd.DataFrame:
    """A factorial's table `trials`: the law, times exp(noise), times exp(blocks·replicate), in a random order."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            **dict(zip(levels, cell, strict=True)),
            "trial": f"{replicate}-{'-'.join(map(str, cell))}",
            "replicate": replicate,
            "status": "ok",
            "reason": "",
            "t_iter": law(dict(zip(levels, cell, strict=True)))
            * float(np.exp(noise * rng.standard_normal() + blocks * replicate)),
        }
        for replicate in range(replicates)
        for cell in product(*levels.values())
    ]
    frame = pd.DataFrame(rows)
    frame["started"] = rng.permutation(len(frame)).astype(float)
    return frame


@pytest.fixture
def law() -> Callable[[Mapping[str, Any]], float]:
    """The synthetic law."""
    return law_seconds


@pytest.fixture
def trials_of() -> Callable[..., pd.DataFrame]:
    """Tables of trials by a law."""
    return made_trials


def _trial(name: str, replicate: int, **columns: object) -> dict[str, object]:
    """A row of `trials`."""
    usual = {"framework": "synthetic", "batch_size": 32, "workers": 1, "status": "ok", "kind": "train", "t_iter": 0.01}
    rest = {"t_iter_low": np.nan, "t_iter_high": np.nan, "spread": 0.01, "drift": 0.0, "target_accuracy": 0.9}
    row = {**usual, **rest, "trial": name, "replicate": replicate, "reason": "", "seconds": 1.0, "started": name}
    row |= columns
    return {**row, "throughput": float(row["batch_size"]) / float(row["t_iter"])}  # type: ignore[arg-type]


def _trainings(
    runs: Mapping[int, Sequence[tuple[float, Sequence[float]]]], target: float | None = 0.9
) -> tuple[pd.DataFrame, pa.Table]:
    """By batch size, of each run the seconds of an epoch and the accuracies after them; the larger the batch, the more
    samples/s."""
    rows, epochs = [], []
    for batch, replicates in runs.items():
        for replicate, (seconds, accuracies) in enumerate(replicates):
            name = f"{batch}-{replicate}"
            rows.append(_trial(name, replicate, batch_size=batch, target_accuracy=np.nan if target is None else target))
            epochs += [
                {"trial": name, "epoch": at, "seconds": seconds, "validation_accuracy": accuracy}
                for at, accuracy in enumerate(accuracies, 1)
            ]
    return pd.DataFrame(rows), pa.Table.from_pylist(epochs)


def _inferences(
    latencies: Mapping[tuple[str, int], Sequence[Sequence[float]]],
) -> tuple[pd.DataFrame, pa.Table]:
    """By engine and batch size, the seconds of each trial's iterations."""
    rows, iterations = [], []
    for (engine, batch), trials in latencies.items():
        for replicate, times in enumerate(trials):
            name = f"{engine}-{batch}-{replicate}"
            own = {"framework": engine, "batch_size": batch, "kind": "infer", "t_iter": float(np.median(times))}
            rows.append(_trial(name, replicate, **own))
            iterations += [
                {"trial": name, "rank": 0, "mode": "native", "warmup": warm, "t_iter": time}
                for warm, time in [*[(True, 9.0)] * 10, *((False, time) for time in times)]
            ]
    return pd.DataFrame(rows), pa.Table.from_pylist(iterations)


@pytest.fixture
def trial() -> Callable[..., dict[str, object]]:
    """Rows of `trials`."""
    return _trial


@pytest.fixture
def trainings() -> Callable[..., tuple[pd.DataFrame, pa.Table]]:
    """Tables `trials` and `epochs` of trainings."""
    return _trainings


@pytest.fixture
def inferences() -> Callable[..., tuple[pd.DataFrame, pa.Table]]:
    """Tables `trials` and `iterations` of inferences."""
    return _inferences
