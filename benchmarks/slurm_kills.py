"""The submitting laboratory is killed at random moments with jobs queued and running; then it is attached again.

`python benchmarks/slurm_kills.py [KILLS]`, 30 unless told. Trials of many shapes, so that there are many small jobs and
submitting goes on all the time. Targets: every trial has one record and began no oftener than jobs were lost (none is);
no submission became two jobs; at least two kills in three hit with jobs queued and running; after a last kill `steplab
cancel` leaves no job in the queue and no process of the study.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))

from slurm_box import SlurmBox

STEPLAB = Path(sys.executable).with_name("steplab")
STUDY = """
[study]
name = "kills"
[factors]
framework = "synthetic"
batch_size = {batches}
nodes = [1, 2]
ranks_per_node = [1, 2, 3]
threads = [1, 2]
loader_workers = [0, 1]
compute_s = 0.05
pace = 1.0
[design]
replicates = 1
[measure]
iterations = 6
warmup = 1
phases = false
[executor.slurm]
time = "5"
jobs = 8
poll_s = 0.3
"""
LONGEST_S = 6.0  # that a laboratory lives once it submits; how long it takes to start is the machine's affair
PATIENCE_S = 30.0


def main(kills: int = 30) -> None:
    """Kill, attach, count; then kill once more and cancel."""
    with SlurmBox(cpus=9) as box, tempfile.TemporaryDirectory() as name:
        os.environ.update(box.variables)
        room = Path(name)
        study = room / "study.toml"
        study.write_text(STUDY.format(batches=list(range(1, kills + 2))))
        moments, seen = random.Random(20), []
        for _ in range(kills):
            kill(study, room / "out", moments.uniform(0.0, LONGEST_S))
            seen.append((len(box.jobs("PENDING")), len(box.jobs("RUNNING"))))
        command = [*run(study, room / "out"), "--json"]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=3600, check=True)
        counts = json.loads(ended.stdout)
        names = [job[1] for job in box.jobs("all")]
        begun = beginnings(room / "out")
        print(counts, f"jobs queued and running at each kill: {seen}", flush=True)
        left = cancelled(box, study, room / "cancelled")
    both = sum(queued > 0 and running > 0 for queued, running in seen)
    twice = sum(count > 1 for count in begun.values())
    print(f"{kills} kills, {both} of them with jobs queued and running: {counts['ok']} of {counts['trials']} trials "
          f"ok, {counts['left']} left, {twice} begun twice; {len(names)} jobs, {len(names) - len(set(names))} of "
          f"them a second time; after cancel {left} left")  # fmt: skip
    assert counts["ok"] == counts["trials"] == len(begun)
    assert not twice
    assert len(names) == len(set(names))
    assert 3 * both >= 2 * kills
    assert left == "no job and no process"


def run(study: Path, out: Path) -> list[str]:
    """The command that submits and follows."""
    return [str(word) for word in (STEPLAB, "run", study, "--out", out, "--executor", "slurm")]


def kill(study: Path, out: Path, after_s: float) -> None:
    """A laboratory that lives for a moment after it has begun to submit."""
    process = subprocess.Popen(run(study, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not submits(process.pid, out):
        time.sleep(0.02)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()


def submits(pid: int, out: Path) -> bool:
    """Whether a laboratory has the claim on submitting."""
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads((out / "claims" / "submitter").read_text())["pid"] == pid)
    return False


def beginnings(out: Path) -> Counter[str]:
    """How often each trial was begun, by the words of the laboratories in the allocations."""
    lines = (line.split() for log in (out / "slurm").glob("*.log") for line in log.read_text().splitlines())
    return Counter(words[1] for words in lines if len(words) == 3 and words[2] == "begins")


def cancelled(box: SlurmBox, study: Path, out: Path) -> str:
    """What is left of a study whose laboratory was killed at work and whose jobs were cancelled then."""
    process = subprocess.Popen(run(study, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (box.jobs("PENDING") and box.jobs("RUNNING")):
        time.sleep(0.2)
    process.kill()
    process.wait()
    subprocess.run([STEPLAB, "cancel", out], check=True, stdout=subprocess.DEVNULL, timeout=300)
    jobs = box.jobs()
    deadline = time.monotonic() + PATIENCE_S
    while (processes := of_study(out)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return f"{jobs or 'no job'} and {processes or 'no process'}"


def of_study(out: Path) -> list[str]:
    """The processes that name a study's folder."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            lines += [line] if str(out) in line else []
    return lines


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
