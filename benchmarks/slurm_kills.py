"""The submitting laboratory is killed at random moments with jobs queued and running; then it is attached again.

`python benchmarks/slurm_kills.py [KILLS]`, 30 unless told. Target: every trial has one record, no submission became two
jobs, nothing is left in the queue after `steplab cancel`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))

from slurm_box import SlurmBox

STEPLAB = Path(sys.executable).with_name("steplab")
STUDY = """
[study]
name = "kills"
[factors]
framework = ["synthetic"]
batch_size = {batches}
workers = [1, 2]
compute_s = 0.2
pace = 1.0
[design]
replicates = 1
[measure]
iterations = 8
warmup = 1
phases = false
[executor.slurm]
time = "5"
jobs = 6
poll_s = 0.3
"""
LONGEST_S = 6.0  # that a laboratory lives


def main(kills: int = 30) -> None:
    moments = random.Random(20)
    with SlurmBox() as box, tempfile.TemporaryDirectory() as name:
        os.environ.update(box.variables)
        study, out = Path(name) / "study.toml", Path(name) / "out"
        study.write_text(STUDY.format(batches=list(range(1, 2 * kills + 1))))
        command = [STEPLAB, "run", study, "--out", out, "--executor", "slurm"]
        for _ in range(kills):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0.3, LONGEST_S))
            process.send_signal(signal.SIGKILL)
            process.wait()
        ended = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=3600)
        counts = json.loads(ended.stdout)
        names = [job[1] for job in box.jobs("all")]
        subprocess.run([STEPLAB, "cancel", out], check=True, capture_output=True)
        left = box.jobs()
    print(f"{kills} kills: {counts['ok']} of {counts['trials']} trials ok, {counts['left']} left; {len(names)} jobs, "
          f"{len(names) - len(set(names))} of them a second time; {len(left)} left behind")  # fmt: skip
    assert counts["ok"] == counts["trials"]
    assert len(names) == len(set(names))
    assert not left


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
