"""Trials per hour over Slurm: laboratories that take trial after trial against a job per trial, in one run.

`python benchmarks/slurm_throughput.py [TRIALS]`. A real Slurm on this machine (`tests/helpers/slurm_box.py`), one
shape, synthetic trials, the same number of jobs at a time; both kinds of jobs run the same code. The kinds take turns,
so that a disturbance hits both. A job per trial is done for a tenth of the trials: all of them would take an hour, and
each waits alike. Target: at least 5 times as many trials per hour.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))

from slurm_box import SlurmBox

from steplab.design.plan import plan
from steplab.study.file import read_study

STEPLAB = Path(sys.executable).with_name("steplab")
STUDY = """
[study]
name = "throughput"
[factors]
framework = ["synthetic"]
batch_size = {batches}
[design]
replicates = 1
[measure]
iterations = 20
[executor.slurm]
time = "30"
jobs = 4
poll_s = 0.5
"""
PATIENCE_S = 3600


def shared(study: Path, out: Path) -> float:
    """Seconds in which a few jobs do all trials."""
    started = time.perf_counter()
    command = [STEPLAB, "run", study, "--out", out, "--executor", "slurm"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    return time.perf_counter() - started


def one_each(box: SlurmBox, study: Path, out: Path, trials: list[str]) -> float:
    """Seconds in which a job for each trial does it; Slurm has four nodes, so four run at a time."""
    started = time.perf_counter()
    for trial in trials:
        run = f"exec {STEPLAB} run {study} --out {out} --trial {trial}"
        script = f"#!/bin/bash\n#SBATCH --exclusive\n#SBATCH --nodes=1\n#SBATCH --output=/dev/null\n{run}\n"
        subprocess.run(["sbatch"], input=script, text=True, check=True, capture_output=True, timeout=60)
    while box.jobs():
        time.sleep(0.5)
    assert len(list((out / "records").glob("*.json"))) == len(trials)
    return time.perf_counter() - started


def main(trials: int = 200) -> None:
    with SlurmBox() as box, tempfile.TemporaryDirectory() as name:
        os.environ.update(box.variables)
        room = Path(name)
        study = room / "study.toml"
        study.write_text(STUDY.format(batches=list(range(1, trials + 1))))
        few = room / "few.toml"  # a job per trial for all of them would take an hour: a part tells the rate
        few.write_text(STUDY.format(batches=list(range(1, max(4, trials // 10) + 1))))
        ids = list(plan(read_study(few)).ids())
        half = len(ids) // 2
        apart = one_each(box, few, room / "apart", ids[:half]) if half else 0.0
        together = shared(study, room / "together")
        apart += one_each(box, few, room / "apart2", ids[half:])
    rates = trials / together * 3600, len(ids) / apart * 3600
    print(f"{trials} trials in shared allocations: {together:.0f} s, {rates[0]:.0f} an hour; {len(ids)} in a job "
          f"each: {apart:.0f} s, {rates[1]:.0f} an hour; {rates[0] / rates[1]:.1f} times (target 5)")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
