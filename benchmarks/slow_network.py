"""What slow lines between hosts cost, and what accumulating gradients brings back: PyTorch in a cluster in a box.

Two and three hosts, three rates of their lines, LeNet-5 and a perceptron of 10.7 million parameters, exchange after
every batch (`sync`) and after every fourth (`accumulate:4`). Pass marks, for the large network at the slowest rate:
`sync` takes at least 1.1 times as long with three hosts as with two, and `accumulate:4` has at least twice the
throughput of `sync`. All ranks share this machine's cores, so figures without shaping show its load, not a network's.

    .venv/bin/python benchmarks/slow_network.py [--replicates 3] [--iterations 16]
"""

from __future__ import annotations

import argparse
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


def measured(replicates: int, iterations: int) -> pd.DataFrame:
    """The trials of the study, in a net of its own."""
    text = STUDY.format(net=NET, slowest=SLOWEST, replicates=replicates, iterations=iterations)
    steplab.net_up(NET, hosts=3)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return steplab.run(parse_study(text, Path("slow_network.toml")), Path(folder) / "study").trials
    finally:
        steplab.net_down(NET)


def table(trials: pd.DataFrame) -> pd.DataFrame:
    """Median seconds of an iteration and samples a second of each configuration."""
    by = ["network", "rate", "workers", "strategy"]
    return trials[trials["status"] == "ok"].groupby(by)[["t_iter", "throughput"]].median()


def verdicts(found: pd.DataFrame) -> dict[str, bool]:
    """The pass marks."""
    slow = found.xs(("mlp", SLOWEST), level=("network", "rate"))
    worse = slow.loc[(3, "sync"), "t_iter"] / slow.loc[(2, "sync"), "t_iter"]
    back = {hosts: slow.loc[(hosts, "accumulate:4"), "throughput"] / slow.loc[(hosts, "sync"), "throughput"]
            for hosts in (2, 3)}  # fmt: skip
    said = {f"sync: 3 hosts take {worse:.2f} times as long as 2 (at least {WORSE})": worse >= WORSE}
    for hosts, times in back.items():
        said[f"{hosts} hosts: accumulate:4 has {times:.2f} times the throughput (at least {BROUGHT_BACK})"] = (
            times >= BROUGHT_BACK
        )
    return said


def main() -> None:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=16)
    asked = parser.parse_args()
    found = table(measured(asked.replicates, asked.iterations))
    print(found.to_string(float_format="{:.4g}".format))
    said = verdicts(found)
    for text, right in said.items():
        print("ok  " if right else "MISS", text)
    sys.exit(not all(said.values()))


if __name__ == "__main__":
    main()
