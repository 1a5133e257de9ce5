"""What slow lines between hosts cost, and what accumulating gradients brings back: PyTorch in a cluster in a box.

Two and three hosts, three rates of their lines, LeNet-5 and a perceptron of 10.7 million parameters, exchange after
every batch (`sync`) and after every fourth (`accumulate:4`). Pass marks, for the large network at the slowest rate:
`sync` takes at least 1.1 times as long with three hosts as with two, and `accumulate:4` has at least twice the
throughput of `sync`. All ranks share this machine's cores, so figures without shaping show its load, not a network's.

    .venv/bin/python benchmarks/slow_network.py [--replicates 3] [--iterations 16] [--out DIR]

The trials stay in a study's folder if one is given: ended (SIGTERM) and called again, it goes on there.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import pandas as pd

import steplab
from steplab.study.file import parse_study

NET = "bench"
SLOWEST = "100mbit"
WORSE, BROUGHT_BACK = 1.1, 2.0
STUDY = """
[study]
name = "slow-network"
[factors]
framework = "torch"
network = ["lenet5", "mlp"]
units = 2900
batch_size = 16
workers = [2, 3]
placement = "net:{net}"
rate = ["unshaped", "1gbit", "{slowest}"]
strategy = ["sync", "accumulate:4"]
[design]
replicates = {replicates}
[measure]
warmup = 4
iterations = {iterations}
phases = false
timeout_s = 900
[data]
samples = 2000
"""


def measured(replicates: int, iterations: int, out: Path) -> pd.DataFrame:
    """The trials of the study, in a net of its own."""
    text = STUDY.format(net=NET, slowest=SLOWEST, replicates=replicates, iterations=iterations)
    steplab.net_up(NET, hosts=3)
    try:
        return steplab.run(parse_study(text, Path("slow_network.toml")), out).trials
    finally:
        steplab.net_down(NET)


def table(trials: pd.DataFrame) -> pd.DataFrame:
    """Seconds of an iteration (least, median, most of the replicates) and samples a second of each configuration."""
    groups = trials[trials["status"] == "ok"].groupby(["network", "rate", "workers", "strategy"])
    times = groups["t_iter"].agg(["min", "median", "max"]).add_prefix("t_iter_")
    return times.assign(throughput=groups["throughput"].median(), replicates=groups.size())


def verdicts(rows: pd.DataFrame) -> dict[str, bool]:
    """The pass marks."""
    slow = rows.xs(("mlp", SLOWEST), level=("network", "rate"))
    worse = slow.loc[(3, "sync"), "t_iter_median"] / slow.loc[(2, "sync"), "t_iter_median"]
    back = {hosts: slow.loc[(hosts, "accumulate:4"), "throughput"] / slow.loc[(hosts, "sync"), "throughput"]
            for hosts in (2, 3)}  # fmt: skip
    marks = {f"sync: 3 hosts take {worse:.2f} times as long as 2 (at least {WORSE})": worse >= WORSE}
    for hosts, times in back.items():
        marks[f"{hosts} hosts: accumulate:4 has {times:.2f} times the throughput (at least {BROUGHT_BACK})"] = (
            times >= BROUGHT_BACK
        )
    return marks


def main() -> None:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=16)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended: call it again with the same --out to go on"))
    with tempfile.TemporaryDirectory() as folder:
        trials = measured(asked.replicates, asked.iterations, asked.out or Path(folder) / "study")
    rows = table(trials)
    print(rows.to_string(float_format="{:.4g}".format))
    marks = verdicts(rows)
    for text, right in marks.items():
        print("ok  " if right else "MISS", text)
    sys.exit(not all(marks.values()))


if __name__ == "__main__":
    main()
