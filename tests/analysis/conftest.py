"""Trials made by the synthetic framework's own law, without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steplab_worker.adapters.synthetic import DECLARATION, Law

Levels = Mapping[str, Sequence[Any]]
LENET5_BYTES = 4 * 61706


def law_seconds(config: Mapping[str, Any]) -> float:
    """The step time of the last rank without noise: its phases, nothing hidden."""
    options = {name: config.get(name, said["default"]) for name, said in DECLARATION["factors"].items()}
    workers = int(config.get("workers", 1))
    job = SimpleNamespace(options=options, batch_size=int(config.get("batch_size", 32)))
    phases = Law(job, workers, LENET5_BYTES).means(workers - 1)
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
