"""Planning of large designs: how long the commands take that need the plan, and how much memory.

Pass marks, set before the first measurement: a million trials are planned (`run --dry-run`) in at most 5 s and 500 MB,
whatever the design; a draw of a million from three levels ends in at most 5 s with a sentence; the first two of a
million trials run (`--limit 2`) within 5 s; a trial is found by its id, and `status` counts what is left, within 10 s.
Each figure is the whole command, interpreter and imports included. The CPU time of the command and its children is
judged, which other programs on the machine do not change; on a quiet machine it is also the time that passes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

STEPLAB = Path(sys.executable).with_name("steplab")
HEAD = '[study]\nname = "large"\n[factors]\nframework = ["synthetic"]\n'
MEASURE = "[measure]\niterations = 5\nwarmup = 1\nphases = false\n"
BATCHES, RATES = list(range(1, 1001)), [number / 1000 for number in range(1, 101)]
LENET = (
    'kernel_size = [2, 3, 5]\npool_size = [2, 3]\nstride = [1]\npadding = ["classic", "same"]\npool = ["avg", "max"]\n'
    f'activation = ["tanh", "relu"]\nfilters = {list(range(4, 25))}\ndropout = {[n / 100 for n in range(50)]}\n'
)
RANGES = (
    "batch_size = { low = 1, high = 65536, scale = 'log' }\nlearning_rate = { low = 1e-5, high = 1.0, scale = 'log' }\n"
    "workers = [1, 2, 4]\nthreads = { low = 1, high = 64 }\n"
)
MILLION = f"batch_size = {BATCHES}\nlearning_rate = {RATES}\nworkers = [1, 2, 3, 4, 5]\nthreads = [1, 2]\n"
DESIGNS = {
    "factorial of 1,000,000": (MILLION, "replicates = 1"),
    "factorial of 333,000 in 3 blocks": (
        f"batch_size = {BATCHES[:333]}\nlearning_rate = {RATES}\nworkers = [1, 2, 3, 4, 5]\nthreads = [1, 2]\n",
        "replicates = 3\n[[exclude]]\nworkers = 5\nbatch_size = 1\n",
    ),
    "factorial of 100,800 networks": (LENET, "replicates = 1"),
    "random of 1,000,000": (RANGES, 'type = "random"\nn = 1_000_000\nreplicates = 1'),
    "latin of 1,000,000": (RANGES, 'type = "latin"\nn = 1_000_000\nreplicates = 1'),
    "random of 1,000,000 from 3": ("batch_size = [1, 2, 3]\n", 'type = "random"\nn = 1_000_000'),
    "latin of 1,000,000 from 3": ("batch_size = [1, 2, 3]\n", 'type = "latin"\nn = 1_000_000'),
    "random of 990,000 from 1,000,000": (MILLION, 'type = "random"\nn = 990_000\nreplicates = 1'),
}


@dataclass(frozen=True)
class Figures:
    """What a command took."""

    passed_s: float
    cpu_s: float
    megabytes: float
    out: str
    err: str


def call(room: Path, *arguments: object) -> Figures:
    """One command, with the highest memory that it had."""
    started = time.perf_counter()
    with (room / "out").open("w+") as out, (room / "err").open("w+") as err:
        process = subprocess.Popen([STEPLAB, *map(str, arguments)], cwd=room, stdout=out, stderr=err)
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
    assert process.returncode == 0, (room / "err").read_text()
    texts = (room / "out").read_text(), (room / "err").read_text()
    cpu_s = usage.ru_utime + usage.ru_stime
    return Figures(time.perf_counter() - started, cpu_s, usage.ru_maxrss / 1000, *texts)


def show(what: str, figures: Figures, most_s: float, most_mb: float = 500) -> bool:
    """One line; whether the pass mark was met."""
    good = figures.cpu_s <= most_s and figures.megabytes <= most_mb
    print(f"{what:50}{figures.cpu_s:6.1f} s of {most_s:<2g} ({figures.passed_s:4.1f} s passed) "
          f"{figures.megabytes:5.0f} MB of {most_mb:<4g} {'pass' if good else 'FAIL'}")  # fmt: skip
    return good


def write(room: Path, factors: str, design: str) -> Path:
    study = room / "large.toml"
    study.write_text(f"{HEAD}{factors}[design]\n{design}\n{MEASURE}")
    return study


def main() -> None:
    passed = []
    with tempfile.TemporaryDirectory() as place:
        room = Path(place)
        for name, (factors, design) in DESIGNS.items():
            figures = call(room, "run", write(room, factors, design), "--dry-run")
            passed.append(show(f"--dry-run, {name}", figures, 5))
            assert ("only 3 can be drawn" in figures.err) == ("from 3" in name), figures.err
        study = write(room, *DESIGNS["factorial of 1,000,000"])
        passed.append(show("run --limit 2 of a million", call(room, "run", study, "--limit", 2), 5))
        passed.append(show("the same again", call(room, "run", study, "--limit", 2), 5))
        passed.append(show("status of 4 of a million", call(room, "status", "runs/large"), 10))
        figures = call(room, "run", study, "--dry-run", "--json")
        passed.append(show("--dry-run --json of a million", figures, 10, 1000))
        last = json.loads(figures.out)["plan"][-1]["trial"]
        one = call(room, "run", study, "--trial", last, "--out", "one")
        passed.append(show("run --trial of the 100,000th", one, 10))
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
