"""What tests of foreign formats share: traces that PyTorch's own profiler wrote, and small records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.core.record import Record
from steplab.core.trial import trial_id

Traces = Callable[..., Path]


@pytest.fixture(scope="session")
def traces(in_torch: Callable[[str, Any], Any], tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """A folder of traces of a real training, made once for each way of asking."""
    made: dict[Any, Path] = {}

    def folder(ranks: int = 1, *, modules: bool = False, ending: str = ".pt.trace.json") -> Path:
        key = (ranks, modules, ending)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("traces")
            job = {"ranks": ranks, "steps": 3, "folder": str(made[key]), "modules": modules, "ending": ending}
            assert len(in_torch("traced", job)) == ranks
        return made[key]

    return folder


@pytest.fixture
def record() -> Callable[..., Record]:
    """A record of ranks with given modes; columns as they are written on disk."""

    def make(*ranks: dict[str, Any], status: str = "ok", **config: Any) -> Record:
        config = {"framework": "synthetic", "workers": len(ranks), "batch_size": 8} | config
        return Record.model_validate(
            {
                "study": "made", "trial": trial_id(config, 0), "replicate": 0, "kind": "step", "status": status,
                "config": config, "resolved": config, "measure": {}, "threads": 1,
                "started": "2026-01-02T03:04:05+00:00",
                "seconds": 1.0, "command": "", "data": {"name": "none", "source": "none", "samples": 0},
                "ranks": [
                    {"rank": at, "host": "here", "pid": 1, "cpu_s": 1, "peak_bytes": 1, "loss": None, **rank}
                    for at, rank in enumerate(ranks)
                ],
            }
        )  # fmt: skip

    return make
