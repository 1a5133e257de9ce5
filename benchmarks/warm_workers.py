"""Trials per minute of a 60-trial LeNet-5 study, warm ranks against fresh ranks for every trial.

Targets: 4 times as many in PyTorch, 6 times in TensorFlow, with the same medians. Trial by trial the two ways take
turns in one laboratory, so that a disturbance hits both; starting ranks counts as part of the trial that needs them.
What `steplab run` takes for itself is measured on the finished study and counts for both.
That the medians are the same is tested as an equivalence: two one-sided t-tests (D. J. Schuirmann, J. Pharmacokinet.
Biopharm. 15, 1987, p. 657) on the differences of the log medians of each trial and its twin; both must refuse, at 5
%, that warm ranks are slower or faster by more than the margin. The margin is 5 %, or the noise where that is wider:
by how much two trials alike, in fresh processes both, typically differ.

    .venv/bin/python benchmarks/warm_workers.py [--quick] [--margin 0.05]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from steplab.core.study import Study
from steplab.core.study_file import parse_study
from steplab.design.plan import plan
from steplab.runner.campaign import Campaign
from steplab.runner.interrupts import Stop
from steplab.store import records, tables
from steplab.store.paths import StudyFolder

STEPLAB = Path(sys.executable).with_name("steplab")
STARTS = 3
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


def noise(fresh: pd.Series) -> float:
    """By what share two trials of the same configuration differ, in the middle of all such pairs."""
    logs = np.log(fresh.unstack("replicate").to_numpy())
    pairs = [np.abs(logs[:, i] - logs[:, j]) for i, j in itertools.combinations(range(logs.shape[1]), 2)]
    return float(np.expm1(np.median(pairs)))


class Turns:
    """Lets two campaigns run in one laboratory, trial by trial in turn, and counts the seconds of each."""

    def __init__(self, names: tuple[str, str]) -> None:
        self.seconds = dict.fromkeys(names, 0.0)
        self._waiting = list(names)  # whose turn it is, then the other's, unless it has left
        self._changed = threading.Condition()

    def take(self, name: str) -> None:
        """Wait for the other campaign's trial to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting[0] == name)
        self._began = time.perf_counter()

    def give(self, name: str) -> None:
        """Let the other campaign go on."""
        self.seconds[name] += time.perf_counter() - self._began
        with self._changed:
            self._waiting.append(self._waiting.pop(0))
            self._changed.notify_all()

    def leave(self, name: str) -> None:
        """Let the other campaign go on alone."""
        with self._changed:
            self._waiting.remove(name)
            self._changed.notify_all()


def campaign(study: Study, folder: StudyFolder, turns: Turns) -> None:
    """Run one study, each trial in its turn."""
    name = study.about.name
    records.prepare(folder, study.text)
    work = Campaign(study, plan(study), folder)
    work.on_start, work.on_record = lambda trial: turns.take(name), lambda record: turns.give(name)
    try:
        work.run(Stop())
    finally:
        turns.leave(name)


def own_seconds(folder: StudyFolder) -> float:
    """What `steplab run` takes besides its trials: the middle of some runs that find all of them done."""
    taken = []
    for _ in range(STARTS):
        began = time.perf_counter()
        subprocess.run([STEPLAB, "run", folder.study, "--out", folder.root], check=True, capture_output=True)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def medians(folder: StudyFolder) -> pd.Series:
    """The trials' medians, by batch size and block."""
    frame = tables.trials_frame(folder.root)
    assert (frame["status"] == "ok").all(), frame[["status", "reason"]]
    return frame.set_index(["batch_size", "replicate"])["t_iter"].sort_index()


def compare(framework: str, batches: list[int], blocks: int, margin: float) -> None:
    """Run both studies, a trial of each in turn, and print what came out."""
    ways = ("warm", "process")
    turns = Turns(ways)
    with tempfile.TemporaryDirectory() as room:
        folders = {way: StudyFolder(Path(room) / way) for way in ways}
        said = {"framework": framework, "batches": batches, "blocks": blocks}
        studies = {way: parse_study(STUDY.format(isolation=way, **said), Path(way)) for way in ways}
        with ThreadPoolExecutor(len(ways)) as pool:
            for done in [pool.submit(campaign, studies[way], folders[way], turns) for way in ways]:
                done.result()
        warm, fresh = (medians(folders[way]) for way in ways)
        own = own_seconds(folders["warm"])
    rates = {way: len(warm) / (own + taken) * 60 for way, taken in turns.seconds.items()}
    limit = max(margin, noise(fresh))
    found = equivalence(warm.to_numpy(), fresh.to_numpy(), limit)
    ratio, verdict = rates["warm"] / rates["process"], "equal" if found.p < 0.05 else "not shown to be equal"
    speeds = f"{rates['warm']:>9.1f}{rates['process']:>9.1f}{ratio:>7.2f}{TARGETS[framework]:>8.0f}"
    interval = f"{found.ratio:>8.3f}{found.low:>8.3f}{found.high:>7.3f}{limit:>8.1%}"
    print(f"{framework:<12}{speeds}{interval}{found.p:>9.2g}  {verdict}", flush=True)


def main() -> None:
    """Both frameworks, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="12 trials instead of 60")
    parser.add_argument("--margin", type=float, default=0.05, help="share within which medians count as equal")
    said = parser.parse_args()
    batches, blocks = (QUICK_BATCHES, QUICK_BLOCKS) if said.quick else (BATCHES, BLOCKS)
    print(f"{len(batches) * blocks} trials; trials a minute; medians warm / process with their 90 % interval")
    print(f"{'framework':<12}{'warm':>9}{'process':>9}{'ratio':>7}{'target':>8}{'medians':>8}{'low':>8}{'high':>7}"
          f"{'margin':>8}{'p':>9}")  # fmt: skip
    for framework in TARGETS:
        compare(framework, batches, blocks, said.margin)


if __name__ == "__main__":
    main()
