"""The laboratory's own cost: milliseconds per trial, and how long `steplab --help` takes.

Targets: at most 20 ms a trial for 1,000 synthetic trials of 2 ranks; `--help` in at most 1.5 times `import typer`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPLAB = Path(sys.executable).with_name("steplab")
STUDY = """
[study]
name = "thousand"
[factors]
framework = ["synthetic"]
workers = [2]
batch_size = {batches}
noise = 0.05
[design]
replicates = 4
[measure]
iterations = 50
"""


def trial_cost() -> None:
    with tempfile.TemporaryDirectory() as room:
        study = Path(room) / "study.toml"
        study.write_text(STUDY.format(batches=list(range(1, 251))))
        started = time.perf_counter()
        done = subprocess.run([STEPLAB, "run", study, "--json"], cwd=room, capture_output=True, check=True, text=True)
        seconds = time.perf_counter() - started
        said = json.loads(done.stdout)
    assert said["ok"] == 1000, said
    print(f"1,000 synthetic trials of 2 ranks: {seconds:.1f} s, "
          f"{seconds / 1000 * 1e3:.1f} ms a trial (target 20)")  # fmt: skip


def elapsed(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def help_cost(rounds: int = 15) -> None:
    """Interleaved, so that a disturbance hits both alike."""
    bare, helped = [], []
    for _ in range(rounds):
        bare.append(elapsed([sys.executable, "-c", "import typer"]))
        helped.append(elapsed([str(STEPLAB), "--help"]))
    ratio = statistics.median(h / b for h, b in zip(helped, bare, strict=True))
    print(f"steplab --help {statistics.median(helped) * 1e3:.0f} ms, import typer "
          f"{statistics.median(bare) * 1e3:.0f} ms, ratio {ratio:.2f} (target 1.5)")  # fmt: skip


if __name__ == "__main__":
    trial_cost()
    help_cost()
