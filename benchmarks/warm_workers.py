"""Trials per minute of a 60-trial LeNet-5 study, warm ranks against fresh ranks for every trial.

Targets: 4 times as many in PyTorch, 6 times in TensorFlow, with the same medians. Block by block the two ways take
turns, so that a disturbance hits both. That the medians are the same is tested as an equivalence: two one-sided t-tests
(D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987, p. 657) on the differences of the log medians of each trial and
its twin; both must refuse, at 5 %, that warm ranks are slower or faster by more than the margin.

    .venv/bin/python benchmarks/warm_workers.py [--quick] [--margin 0.05]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from steplab.store import tables

STEPLAB = Path(sys.executable).with_name("steplab")
TARGETS = {"torch": 4.0, "tensorflow": 6.0}
BATCHES, BLOCKS = list(range(4, 24)), 3  # as many replicates as a study has by default
QUICK_BATCHES, QUICK_BLOCKS = [8, 12, 16, 20, 24, 32], 2
STUDY = """
[study]
name = "{isolation}"
[factors]
framework = ["{framework}"]
network = ["lenet5"]
batch_size = {batches}
[design]
replicates = {blocks}
[measure]
warmup = 10
iterations = 30
phases = false
isolation = "{isolation}"
[data]
samples = 2000
"""


@dataclass(frozen=True)
class Equivalence:
    """How much slower warm ranks were, with its 90 % interval, and the larger p-value of the two one-sided tests."""

    ratio: float
    low: float
    high: float
    p: float


def equivalence(warm: NDArray[np.float64], fresh: NDArray[np.float64], margin: float) -> Equivalence:
    """Test that paired medians differ by less than that share."""
    differences = np.log(warm / fresh)
    error = float(stats.sem(differences))
    freedom, mean, limit = differences.size - 1, float(differences.mean()), float(np.log1p(margin))
    below = float(stats.t.cdf((mean - limit) / error, freedom))
    above = float(stats.t.sf((mean + limit) / error, freedom))
    low, high = np.exp(mean + error * stats.t.ppf([0.05, 0.95], freedom))
    return Equivalence(float(np.exp(mean)), float(low), float(high), max(below, above))


def run_block(study: Path, trials: int) -> float:
    """Run the next trials of a study; the seconds it took, start and end of the laboratory included."""
    started = time.perf_counter()
    command = [STEPLAB, "run", study, "--out", study.with_suffix(""), "--limit", str(trials), "--json"]
    done = subprocess.run(command, cwd=study.parent, capture_output=True, check=False, text=True)
    seconds = time.perf_counter() - started
    assert done.returncode == 0 and not json.loads(done.stdout)["failed"], done.stderr
    return seconds


def medians(study: Path) -> pd.Series:
    """The trials' medians, by batch size and block."""
    return tables.trials_frame(study.with_suffix("")).set_index(["batch_size", "replicate"])["t_iter"].sort_index()


def compare(framework: str, batches: list[int], blocks: int, margin: float) -> None:
    """Run both studies, a block of each in turn, and print what came out."""
    seconds = {"warm": 0.0, "process": 0.0}
    with tempfile.TemporaryDirectory() as room:
        studies = {isolation: Path(room) / f"{isolation}.toml" for isolation in seconds}
        for isolation, path in studies.items():
            path.write_text(STUDY.format(framework=framework, batches=batches, blocks=blocks, isolation=isolation))
        for _ in range(blocks):
            for isolation, path in studies.items():
                seconds[isolation] += run_block(path, len(batches))
        warm, fresh = (medians(studies[isolation]) for isolation in ("warm", "process"))
    trials = len(batches) * blocks
    rates = {isolation: trials / taken * 60 for isolation, taken in seconds.items()}
    found = equivalence(warm.to_numpy(), fresh.to_numpy(), margin)
    ratio, verdict = rates["warm"] / rates["process"], "equal" if found.p < 0.05 else "not shown to be equal"
    print(f"{framework:<12}{rates['warm']:>9.1f}{rates['process']:>9.1f}{ratio:>7.2f}{TARGETS[framework]:>8.0f}"
          f"{found.ratio:>8.3f}{found.low:>8.3f}{found.high:>7.3f}{found.p:>9.2g}  {verdict}", flush=True)  # fmt: skip


def main() -> None:
    """Both frameworks, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="12 trials instead of 60")
    parser.add_argument("--margin", type=float, default=0.05, help="share within which medians count as equal")
    said = parser.parse_args()
    batches, blocks = (QUICK_BATCHES, QUICK_BLOCKS) if said.quick else (BATCHES, BLOCKS)
    print(f"{len(batches) * blocks} trials; trials a minute; medians warm / process with their 90 % interval, "
          f"margin ±{said.margin:.0%}")  # fmt: skip
    print(f"{'framework':<12}{'warm':>9}{'process':>9}{'ratio':>7}{'target':>8}{'medians':>8}{'low':>8}{'high':>7}"
          f"{'p':>9}")  # fmt: skip
    for framework in TARGETS:
        compare(framework, batches, blocks, said.margin)


if __name__ == "__main__":
    main()
