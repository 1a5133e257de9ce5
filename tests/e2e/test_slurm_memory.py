"""A real Slurm that holds jobs to their memory: who ran out of it is told, and nobody else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_memory import MemoryBox, can_hold_jobs

from steplab.runner.slurm import commands
from steplab.runner.slurm.states import is_live, meaning

PATIENCE_S = 300.0
STUDY = """
[study]
name = "memory"
[factors]
framework = "synthetic"
nodes = [1, 2]
fault = "memory"
fault_rank = {rank}
[design]
replicates = 1
[measure]
iterations = 4
warmup = 1
phases = false
[executor.slurm]
time = "10"
poll_s = 0.5
jobs = 2
flags = ["--mem=400"]
"""

# Nothing to install: a kernel without these control groups, or a user who may not make any, cannot show it.
pytestmark = pytest.mark.skipif(not can_hold_jobs(), reason="this system lets us make no memory control groups")


@pytest.fixture(scope="module")
def box() -> Iterator[MemoryBox]:
    with MemoryBox(nodes=3) as box:
        yield box


@pytest.fixture(autouse=True)
def variables(box: MemoryBox, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in box.variables.items():
        monkeypatch.setenv(name, value)
    yield
    box.cancel_all()


def test_a_rank_that_runs_out_of_memory_is_its_trials_record_at_once(
    steplab: Callable[..., Any], tmp_path: Path
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(rank=0))
    ran = steplab("run", study, "--out", "out", "--executor", "slurm", timeout=PATIENCE_S)
    assert ran.code == 3
    records = [json.loads(path.read_text()) for path in (tmp_path / "out" / "records").glob("*.json")]
    assert sorted(record["config"]["nodes"] for record in records) == [1, 2]
    for record in records:
        assert record["status"] == "out-of-memory", record["reason"]
        assert record["reason"] == "rank 0 was killed in the trial by the kernel for lack of memory"
        assert not record["attempts"], "what runs out of memory once does so again"


def test_a_job_that_runs_out_of_memory_is_none_that_failed(box: MemoryBox) -> None:
    eat = 'python3 -c "bytearray(800 << 20)"'
    number = box.run("sbatch", "--parsable", "--mem=200", "--output=/dev/null", f"--wrap={eat}").strip()
    deadline = time.monotonic() + PATIENCE_S
    while is_live(state := next(job.state for job in commands.queue() if job.number == number)):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert meaning(state).words == "ran out of memory"
