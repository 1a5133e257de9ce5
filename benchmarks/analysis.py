"""How long `analyze`, `status` and `run` take on a large study: first (records are read) and again (tables are cached).

Targets: `analyze` of 1,000 trials of 2 ranks and 200 iterations in at most 5 s, of 100,000 trials with 10 million
iteration rows in at most 60 s and 4 GB; `status` of it, and a `run` that finds all done, in at most 10 s and 1 GB.
`--trials N` makes a study of another size.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil

from steplab.core.record import DataInfo, Mode, Rank, Record
from steplab.core.trial import trial_id

STEPLAB = Path(sys.executable).with_name("steplab")
PHASES = ("t_io", "t_h2d", "t_f", "t_b", "t_wait", "t_move", "t_u")
REPLICATES = 5
POOL = 64  # different sets of times; a record takes one of them, scaled
STUDY = """
[study]
name = "large"
[factors]
framework = ["synthetic"]
workers = {workers}
batch_size = {batches}
sample_s = {samples}
[design]
replicates = 5
order = "given"
"""


def rank_of(number: int, iterations: int, rng: np.random.Generator) -> Rank:
    """One rank with both modes."""
    phases = {name: (rng.lognormal(-6, 0.1, iterations)).tolist() for name in PHASES}
    total = np.sum([phases[name] for name in PHASES], axis=0)
    modes = {
        "native": Mode(columns={"t_iter": (0.97 * total).tolist()}, warmup=[False] * iterations),
        "phased": Mode(columns={"t_iter": total.tolist(), **phases}, warmup=[False] * iterations),
    }
    return Rank(rank=number, host="h", pid=1, cpu_s=1.0, peak_bytes=1e8, loss=1.0, modes=modes)


def template(workers: int, iterations: int, rng: np.random.Generator) -> dict[str, Any]:
    """A record as a plain document."""
    config: dict[str, Any] = {"framework": "synthetic", "workers": workers, "batch_size": 1, "sample_s": 0.0}
    resolved = config | {"network": "lenet5", "dataset": "mnist", "threads": 1, "strategy": "sync"}
    record = Record(
        study="large", trial=trial_id(config, 0), replicate=0, kind="step", status="ok", config=config,
        resolved=resolved, measure={}, ranks=[rank_of(i, iterations, rng) for i in range(workers)], threads=1,
        machine={"cpus": 64, "host": "h"}, data=DataInfo(name="none", source="none", samples=0), other_cpu_s=0.0,
        started="", seconds=1.0, command="",
    )  # fmt: skip
    document: dict[str, Any] = orjson.loads(record.model_dump_json())
    return document


def make(folder: Path, trials: int, workers: tuple[int, ...], iterations: dict[int, int]) -> int:
    """Write a study's records; how many iteration rows they hold."""
    (folder / "records").mkdir(parents=True)
    rng = np.random.default_rng(1)
    pools = {n: [template(n, iterations[n], rng) for _ in range(POOL)] for n in workers}
    rows = 0
    for at in range(trials):
        replicate, rest = at % REPLICATES, at // REPLICATES
        n, number = workers[rest % len(workers)], rest // len(workers)
        document = pools[n][at % POOL]
        config = {
            "framework": "synthetic",
            "workers": n,
            "batch_size": 1 + number % 100,
            "sample_s": number // 100 / 1e4,
        }
        document["config"], document["replicate"] = config, replicate
        document["resolved"] |= config
        document["trial"], document["started"] = trial_id(config, replicate), f"{at:08d}"
        (folder / "records" / f"{document['trial']}.json").write_bytes(orjson.dumps(document))
        rows += n * 2 * iterations[n]
    numbers = -(-trials // REPLICATES // len(workers))
    batches, samples = list(range(1, 1 + min(numbers, 100))), [at / 1e4 for at in range(-(-numbers // 100))]
    (folder / "study.toml").write_text(STUDY.format(workers=list(workers), batches=batches, samples=samples))
    return rows


def timed(*command: object) -> tuple[float, float]:
    """Seconds and peak GB of one command; all its processes together."""
    before = time.perf_counter()
    words = [str(STEPLAB), *map(str, command)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _resident(process.pid))
        time.sleep(0.1)
    seconds = time.perf_counter() - before
    assert process.returncode == 0, f"{command[0]} failed"
    return seconds, peak / 2**30


def _resident(pid: int) -> int:
    """Bytes that a process and its children hold; shared pages count in each."""
    total = 0
    with contextlib.suppress(psutil.Error):
        whole = psutil.Process(pid)
        for one in (whole, *whole.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += one.memory_info().rss
    return total


def show(name: str, targets: dict[str, str], trials: int, workers: tuple[int, ...], iterations: dict[int, int]) -> None:
    """Make a study, look at it before and after its tables are cached, print a line for each command."""
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room) / "study"
        rows = make(folder, trials, workers, iterations)
        print(f"{name}, {rows:,} rows")
        commands = {
            "status": ("status", folder),
            "run, all done": ("run", folder / "study.toml", "--out", folder),
            "analyze": ("analyze", folder),
        }
        first = {label: timed(*command) for label, command in commands.items()}
        again = {label: timed(*command) for label, command in commands.items()}
    for label in commands:
        figures = "".join(f"{seconds:>10.1f} s{gb:>7.2f} GB" for seconds, gb in (first[label], again[label]))
        print(f"  {label:<16}{figures}   {targets.get(label, '')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100_000)
    asked = parser.parse_args()
    print(f"{'':<18}{'first':>12}{'':>10}{'again':>12}{'':>10}   target")
    show("1,000 trials × 2 ranks × 200", {"analyze": "5 s"}, 1000, (2,), {2: 100})
    large = {"status": "10 s, 1 GB", "run, all done": "10 s, 1 GB", "analyze": "60 s, 4 GB"}
    show(f"{asked.trials:,} trials", large, asked.trials, (1, 2), {1: 50, 2: 25})


if __name__ == "__main__":
    main()
