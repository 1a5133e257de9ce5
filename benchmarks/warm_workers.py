"""Trials per minute of a 60-trial LeNet-5 study, warm ranks against fresh ranks for every trial, and their medians.

Targets: 4 times as many in PyTorch, 6 times in TensorFlow, with the same medians. Trial by trial the two ways take
turns in one laboratory, so that a disturbance hits both; starting ranks counts as part of the trial that needs them.
What `steplab run` takes for itself is measured on the finished study and counts for both.

That the medians are the same is tested as an equivalence: two one-sided t-tests (D. J. Schuirmann, J. Pharmacokinet.
Biopharm. 15, 1987, p. 657) must both refuse, at 5 %, that warm ranks are slower or faster by more than 5 %, whatever
the noise. The warm trials of a block share a process, so a block counts once, with the mean of its log ratios; there
are many blocks of few trials. How many is settled after the first ones by the scatter of the blocks alone, not by their
mean, so that looking costs hardly any confidence: 6 instead of 5 % in simulations (blinded re-estimation of the sample
size: M. Kieser, T. Friede, Stat. Med. 22, 2003, p. 995). They are enough for a power of 80 % if the two ways are really
equal. Where the most blocks do not suffice, equality is not shown, and that is a failure.

    .venv/bin/python benchmarks/warm_workers.py [--frameworks torch] [--equality-only]
"""

from __future__ import annotations

import argparse
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

from steplab.core.record import Record
from steplab.core.trial import Trial
from steplab.design.plan import plan
from steplab.runner.campaign import Campaign
from steplab.runner.interrupts import Stop
from steplab.runner.observer import Observer
from steplab.store import records, tables
from steplab.store.paths import StudyFolder
from steplab.study.file import parse_study
from steplab.study.sections import Study

STEPLAB = Path(sys.executable).with_name("steplab")
STARTS = 3
WAYS = ("warm", "process")
TARGETS = {"torch": 4.0, "tensorflow": 6.0}
BATCHES, BLOCKS = list(range(4, 24)), 3  # as many replicates as a study has by default
MARGIN = 0.05
EQUALITY_BATCHES, FIRST_BLOCKS, MOST_BLOCKS = [8, 16, 32], 16, 60
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


def equivalence(differences: NDArray[np.float64], margin: float) -> Equivalence:
    """Test that the mean of independent log ratios is within that share of none."""
    error = float(stats.sem(differences))
    freedom, mean, limit = differences.size - 1, float(differences.mean()), float(np.log1p(margin))
    below = float(stats.t.cdf((mean - limit) / error, freedom))
    above = float(stats.t.sf((mean + limit) / error, freedom))
    low, high = np.exp(mean + error * stats.t.ppf([0.05, 0.95], freedom))
    return Equivalence(float(np.exp(mean)), float(low), float(high), max(below, above))


def blocks_needed(differences: NDArray[np.float64], margin: float) -> int:
    """How many blocks of that scatter show equality with a power of 80 %, if there is no difference."""
    reach = stats.norm.ppf(0.95) + stats.norm.ppf(0.90)  # 5 % on each side, and half of 20 % on each
    return int(np.ceil((reach * differences.std(ddof=1) / np.log1p(margin)) ** 2)) + 1


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


class InTurn(Observer):
    """Holds a campaign up at the start of each trial until it is its turn."""

    def __init__(self, turns: Turns, name: str) -> None:
        self.turns, self.name = turns, name

    def on_start(self, trial: Trial) -> None:
        """Wait for the turn."""
        self.turns.take(self.name)

    def on_record(self, record: Record) -> None:
        """Give it on."""
        self.turns.give(self.name)


def campaign(study: Study, folder: StudyFolder, turns: Turns) -> None:
    """Run one study, each trial in its turn."""
    name = study.about.name
    records.prepare(folder, study.text)
    try:
        Campaign(study, plan(study), folder, observer=InTurn(turns, name)).run(Stop())
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


def both_ways(room: Path, framework: str, batches: list[int], blocks: int) -> tuple[pd.Series, pd.Series, Turns]:
    """Medians of warm and of fresh ranks, a trial of each in turn; goes on where an earlier call ended."""
    turns = Turns(WAYS)
    folders = {way: StudyFolder(room / way) for way in WAYS}
    said = {"framework": framework, "batches": batches, "blocks": blocks}
    studies = {way: parse_study(STUDY.format(isolation=way, **said), Path(way)) for way in WAYS}
    with ThreadPoolExecutor(len(WAYS)) as pool:
        for done in [pool.submit(campaign, studies[way], folders[way], turns) for way in WAYS]:
            done.result()
    return medians(folders["warm"]), medians(folders["process"]), turns


def compare_speed(framework: str) -> bool:
    """Trials a minute of a usual study, both ways."""
    with tempfile.TemporaryDirectory() as room:
        warm, _, turns = both_ways(Path(room), framework, BATCHES, BLOCKS)
        own = own_seconds(StudyFolder(Path(room) / "warm"))
    rates = {way: len(warm) / (own + taken) * 60 for way, taken in turns.seconds.items()}
    ratio, target = rates["warm"] / rates["process"], TARGETS[framework]
    passed = ratio >= target
    print(f"{framework:<12}{rates['warm']:.1f} warm and {rates['process']:.1f} fresh trials a minute: ratio "
          f"{ratio:.2f}, target {target:.0f}: {'pass' if passed else 'FAIL'}", flush=True)  # fmt: skip
    return passed


def compare_medians(framework: str) -> bool:
    """Whether warm ranks measure what fresh ones do."""
    with tempfile.TemporaryDirectory() as room:
        differences = _block_differences(Path(room), framework, FIRST_BLOCKS)
        blocks = min(max(blocks_needed(differences, MARGIN), FIRST_BLOCKS), MOST_BLOCKS)
        if blocks > FIRST_BLOCKS:
            differences = _block_differences(Path(room), framework, blocks)
    found = equivalence(differences, MARGIN)
    passed = found.p < 0.05
    said = "pass" if passed else "FAIL, not shown to be equal"
    print(f"{framework:<12}medians warm / fresh {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}, 90 %) in "
          f"{blocks} blocks, margin {MARGIN:.0%}, p {found.p:.2g}: {said}", flush=True)  # fmt: skip
    return passed


def _block_differences(room: Path, framework: str, blocks: int) -> NDArray[np.float64]:
    warm, fresh, _ = both_ways(room, framework, EQUALITY_BATCHES, blocks)
    return np.log(warm / fresh).groupby("replicate").mean().to_numpy()


def main() -> None:
    """Both frameworks, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--frameworks", nargs="+", default=list(TARGETS))
    parser.add_argument("--equality-only", action="store_true", help="leave the trials per minute out")
    said = parser.parse_args()
    passed = []
    for framework in said.frameworks:
        if not said.equality_only:
            passed.append(compare_speed(framework))
        passed.append(compare_medians(framework))
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
