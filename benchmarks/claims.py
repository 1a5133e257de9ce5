"""Many laboratories on one folder: every trial is recorded once; what sharing costs.

`python benchmarks/claims.py [LABORATORIES] [TRIALS]`. Each laboratory is a process with the campaign's own way through
claims and records; in the place of a measurement it sleeps, and its records are prepared ones. Targets: 64 laboratories
lose nothing and run nothing twice, and the claim and record of a trial, without its measurement, cost them at most
twice the CPU time that they cost one laboratory. Decision 32 has the figures.
"""

from __future__ import annotations

import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steplab.core.record import Record
from steplab.design.plan import PlannedTrial, plan
from steplab.runner.campaign import Campaign
from steplab.runner.interrupts import Stop
from steplab.store import records
from steplab.store.paths import StudyFolder
from steplab.study.file import read_study

STEPLAB = Path(sys.executable).with_name("steplab")
STUDY = """
[study]
name = "crowd"
[factors]
framework = ["synthetic"]
batch_size = {batches}
[design]
replicates = {replicates}
[measure]
iterations = 20
"""
MOST = 2.0  # times the cost of one laboratory
REAL = 200  # trials of which one laboratory's whole cost is measured, less that of the first
TRIAL_S = 0.25  # that a trial sleeps


@dataclass
class Rehearsal(Campaign):
    """A campaign whose trials are asleep."""

    pattern: Record | None = None
    trial_s: float = 0.0
    ran: list[str] = field(default_factory=list)

    def _run_one(self, trial: PlannedTrial) -> None:
        assert self.pattern is not None
        self.ran.append(trial.id)
        time.sleep(self.trial_s)
        record = self.pattern.model_copy(
            update={"trial": trial.id, "config": dict(trial.config), "replicate": trial.replicate}
        )
        records.write_record(self.folder, record)


def study_file(room: Path, trials: int) -> Path:
    path = room / f"study-{trials}.toml"
    path.write_text(STUDY.format(batches=list(range(1, trials // 10 + 1)), replicates=10))
    return path


def laboratory(path: Path, out: Path, number: int, pattern: Record, trial_s: float, gate: Any, answers: Any) -> None:
    study, folder = read_study(path), StudyFolder(out)
    trials = plan(study)
    gate.wait()
    before = resource.getrusage(resource.RUSAGE_SELF)
    campaign = Rehearsal(study, trials, folder, submission=f"{number:010x}", pattern=pattern, trial_s=trial_s)
    campaign.run(Stop())
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    answers.put((campaign.ran, used))


def crowd(room: Path, laboratories: int, trials: int, pattern: Record, trial_s: float) -> float:
    """CPU seconds of a trial's claim and record; nothing may be lost or run twice."""
    path, out = study_file(room, trials), room / f"out-{laboratories}"
    records.prepare(StudyFolder(out), path.read_text())
    context = multiprocessing.get_context("spawn")  # forked ones would copy each page that they touch, as none does
    gate, answers = context.Barrier(laboratories), context.Queue()
    team = [
        context.Process(target=laboratory, args=(path, out, number, pattern, trial_s, gate, answers))
        for number in range(laboratories)
    ]
    started = time.perf_counter()
    for process in team:
        process.start()
    told = [answers.get(timeout=1800) for _ in team]
    for process in team:
        process.join()
    seconds = time.perf_counter() - started
    runs = Counter(trial for ran, _ in told for trial in ran)
    done, wanted = records.done(StudyFolder(out)), set(plan(read_study(path)).ids())
    twice = sum(count > 1 for count in runs.values())
    cost = sum(used for _, used in told) / len(wanted)
    print(f"{laboratories} laboratories, {len(wanted)} trials: {len(wanted - done)} lost, {twice} run twice, "
          f"{cost * 1e3:.2f} ms of CPU a trial, {seconds:.1f} s")  # fmt: skip
    assert not wanted - done, "trials were lost"
    assert not twice, "trials were run twice"
    return cost


def whole_cost(room: Path) -> tuple[float, Record]:
    """CPU seconds of a synthetic trial of one real laboratory, its start left out, and a record of it."""
    path, out = study_file(room, REAL), room / "real"
    start, all_of_it = (run_cost([STEPLAB, "run", path, "--out", out, *limit]) for limit in (["--limit", "1"], []))
    return (all_of_it - start) / (REAL - 2), next(records.all_records(StudyFolder(out)))


def run_cost(command: list[Any]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(laboratories: int = 64, trials: int = 2000) -> None:
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        real, pattern = whole_cost(room)
        alone = crowd(room, 1, trials // 10, pattern, TRIAL_S)
        together = crowd(room, laboratories, trials, pattern, TRIAL_S)
    print(f"a synthetic trial, measurement included, costs one laboratory {real * 1e3:.1f} ms of CPU, {laboratories} "
          f"{(real + together - alone) * 1e3:.1f} ms: {1 + (together - alone) / real:.2f} times")  # fmt: skip
    ratio = together / alone
    print(f"{'ok  ' if ratio <= MOST else 'MISS'} claim and record alone: {ratio:.2f} times (at most {MOST:g})")
    sys.exit(ratio > MOST)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
