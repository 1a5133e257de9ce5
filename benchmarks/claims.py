"""Many laboratories on one folder: is every trial recorded once, and what does sharing cost?

`python benchmarks/claims.py [LABORATORIES] [TRIALS]`. Each laboratory is a process with the campaign's own way through
claims and records; a trial's measurement is left out and its record is a prepared one. Targets: 64 laboratories lose
nothing and run nothing twice, and a synthetic trial, measurement included, costs them at most twice the CPU time that it
costs one laboratory. Decision 32 has the figures.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

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
REAL = 40  # trials of which one laboratory's whole cost is measured


@dataclass
class Rehearsal(Campaign):
    """A campaign whose trials take no time."""

    pattern: Record | None = None

    def _run_one(self, trial: PlannedTrial) -> None:
        assert self.pattern is not None
        self.ran = [*getattr(self, "ran", []), trial.id]
        record = self.pattern.model_copy(
            update={"trial": trial.id, "config": dict(trial.config), "replicate": trial.replicate}
        )
        records.write_record(self.folder, record)


def study_file(room: Path, trials: int) -> Path:
    path = room / f"study-{trials}.toml"
    path.write_text(STUDY.format(batches=list(range(1, trials // 10 + 1)), replicates=10))
    return path


def laboratory(path: Path, out: Path, number: int, pattern: Record, gate: object, answers: object) -> None:
    study, folder = read_study(path), StudyFolder(out)
    trials = plan(study)
    gate.wait()  # type: ignore[attr-defined]
    before = resource.getrusage(resource.RUSAGE_SELF)
    campaign = Rehearsal(study, trials, folder, submission=f"{number:010x}", waits=False, pattern=pattern)
    campaign.run(Stop())
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    answers.put((getattr(campaign, "ran", []), used))  # type: ignore[attr-defined]


def crowd(room: Path, laboratories: int, trials: int, pattern: Record) -> float:
    """CPU seconds of a trial's claim and record; nothing may be lost or run twice."""
    path, out = study_file(room, trials), room / f"out-{laboratories}"
    records.prepare(StudyFolder(out), path.read_text())
    context = multiprocessing.get_context("fork")
    gate, answers = context.Barrier(laboratories), context.Queue()
    team = [
        context.Process(target=laboratory, args=(path, out, number, pattern, gate, answers))
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
    """CPU seconds of a synthetic trial of one real laboratory, and a record of it."""
    path, out = study_file(room, REAL), room / "real"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([STEPLAB, "run", path, "--out", out, "--json"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(done.stdout)["ok"] == REAL
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used / REAL, next(records.all_records(StudyFolder(out)))


def main(laboratories: int = 64, trials: int = 2000) -> None:
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        real, pattern = whole_cost(room)
        alone = crowd(room, 1, trials, pattern)
        together = crowd(room, laboratories, trials, pattern)
    ratio = (real + together - alone) / real
    print(f"a synthetic trial of one laboratory costs {real * 1e3:.1f} ms of CPU, of {laboratories} "
          f"{(real + together - alone) * 1e3:.1f} ms: {ratio:.2f} times (target 2)")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
