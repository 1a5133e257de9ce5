"""Tables of a source as its laptop studies would give them, drawn from a law instead of measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from steplab.analysis.roofline.points import Roofline, RooflinePoint
from steplab.costs.roofs import Ceiling, Level
from steplab.design.plan import plan
from steplab.sources.source import Measured, Source
from steplab.study.file import read_study
from steplab_worker.phases import PHASES

STUDIES = Path(__file__).parents[2] / "studies"
NOISE = 0.02
SPEED = {"torch": 1.0, "tensorflow": 1.5, "jax": 1.2, "mxnet": 1.4, "chainer": 3.0, "velox": 40.0, "onnxruntime": 0.6}
MOST = 60  # trials of a study that are drawn


def measured(source: Source, size: str = "laptop", most: int = MOST) -> list[Measured]:
    """What the records of the source's studies would say."""
    return [_of_study(STUDIES / source.file(name, size), most) for name in source.studies]


def _of_study(path: Path, most: int) -> Measured:
    study = read_study(path)
    trials = plan(study)
    rng = np.random.default_rng(len(trials))
    every = max(1, len(trials) // most) if study.design.type == "random" else 1
    rows = [_row(trial.id, trial.replicate, trial.config, rng) for trial in list(trials)[::every]]
    frame = pd.DataFrame(rows)
    factors = tuple(name for name in study.factors if name in frame.columns)
    return Measured(frame, factors, _iterations(frame, rng), lambda: _rooflines(frame))


def _row(trial: str, replicate: int, config: Mapping[str, object], rng: np.random.Generator) -> dict[str, object]:
    """A trial whose step takes 1 ms a sample of the batch, more in slow frameworks and with several workers."""
    batch, workers = float(config["batch_size"]), float(config.get("workers", 1))  # type: ignore[arg-type]
    often = str(config.get("strategy", "sync")) == "sync"
    t_iter = 1e-3 * batch**0.8 * SPEED[str(config["framework"])] * (1 + (0.5 if often else 0.1) * (workers - 1))
    t_iter *= float(np.exp(rng.normal(0, NOISE)))
    known = {"threads": 1, "workers": 1, "strategy": "sync", **config}
    shares = {phase: t_iter * share for phase, share in zip(PHASES, (0.1, 0.0, 0.0, 0.3, 0.4, 0.1, 0.1), strict=True)}
    used = {"cpu_s": 2.0, "memory_bytes": 1e8, "energy_j": np.nan, "energy_provenance": "none", "seconds": 3.0}
    learned = {
        "epochs": 2,
        "train_s": 20 * t_iter,
        "validation_accuracy": 0.1,
        "version": "1.0",
        "started": "2026-01-02",
    }
    ended = {"status": "ok", "t_other": 0.0, "lif": 1.05, "throughput": batch * workers / t_iter, "t_iter": t_iter}
    return {"trial": trial, "replicate": replicate, **known, **ended, **shares, **used, **learned}


def _iterations(trials: pd.DataFrame, rng: np.random.Generator) -> pa.Table:
    """Ten phased iterations of each rank; rank 1 is a tenth slower throughout."""
    rows = [
        {"trial": trial, "rank": rank, "iteration": number, "mode": "phased", "warmup": False,
         "t_f": 0.01 * (1 + 0.1 * rank) * rng.lognormal(0, 0.01), "t_b": 0.02 * (1 + 0.1 * rank)}
        for trial, workers in zip(trials["trial"], trials["workers"], strict=True)
        for rank in range(int(workers))
        for number in range(10)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


def _rooflines(trials: pd.DataFrame) -> dict[str, Roofline]:
    """AlexNet's dense layers take most of its time, below the bandwidth roof; ResNet18's convolutions do not."""
    ceiling = Ceiling(1, 1e11, (Level("DRAM", 1e10),), 0.01)
    drawn = {}
    for trial, network in zip(trials["trial"], trials["network"], strict=True):
        dense = 0.8 if network == "alexnet" else 0.05
        points = (_point("conv1", 1 - dense, "compute", 1e11), _point("dense6", dense, "bandwidth", 1e10))
        drawn[str(trial)] = Roofline(str(network), "a machine", ceiling, points)
    return drawn


def _point(layer: str, seconds: float, bound: str, attainable: float) -> RooflinePoint:
    flops = seconds * attainable / 2
    return RooflinePoint(layer, "dense", "forward", flops, flops, seconds, attainable, bound, bound)  # type: ignore[arg-type]
