"""A small study's folder, made of records without running anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.core.record import DataInfo, Mode, Rank, Record
from steplab.core.trial import trial_id
from steplab.store import records
from steplab.store.paths import StudyFolder

STUDY = """
[study]
name = "small"
[factors]
framework = "synthetic"
batch_size = [1, 2, 3, 4]
[design]
replicates = 1
[measure]
iterations = 8
warmup = 2
"""


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own: nothing is sealed with the key of whoever runs the tests."""
    place = tmp_path_factory.mktemp("home") / "steplab"
    monkeypatch.setenv("STEPLAB_HOME", str(place))
    return place


@pytest.fixture
def record() -> Callable[..., Record]:
    """Make the record of a trial with that batch size."""

    def make(batch_size: int = 1, **changed: Any) -> Record:
        config = {"framework": "synthetic", "batch_size": batch_size}
        resolved = {**config, "network": "lenet5", "dataset": "mnist", "workers": 1, "threads": 1, "strategy": "sync"}
        times = Mode(columns={"t_iter": [0.1 * batch_size] * 8}, warmup=[False] * 8)
        ranks = [Rank(rank=0, host="h", pid=1, cpu_s=1.0, peak_bytes=1e8, loss=1.0, modes={"native": times})]
        about = {"study": "small", "trial": trial_id(config, 0), "replicate": 0, "kind": "step", "status": "ok"}
        around = {"measure": {}, "threads": 1, "data": DataInfo(name="mnist", source="none", samples=0)}
        ended = {"started": f"2026-01-01T00:00:{batch_size:02d}", "seconds": 2.0, "command": "steplab run"}
        return Record(**{**about, **around, **ended, "config": config, "resolved": resolved, "ranks": ranks, **changed})

    return make


@pytest.fixture
def small(tmp_path: Path, record: Callable[..., Record]) -> StudyFolder:
    """A finished study of four trials."""
    folder = StudyFolder(tmp_path / "small")
    records.prepare(folder, STUDY)
    for batch_size in (1, 2, 3, 4):
        records.write_record(folder, record(batch_size))
    return folder
