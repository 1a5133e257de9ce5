"""Do the 95 % intervals of identified parameters hold the truth? 100 repetitions of each data set."""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - a script's own folder

from _published import FRAMEWORKS, generate
from steplab.models.generic import Generic


def recover(framework: str, repetitions: int) -> dict[tuple[str, str], list[bool]]:
    """For each parameter: whether its interval held the truth, in every repetition that identified it."""
    held = defaultdict(list)
    for repetition in range(repetitions):
        data = generate(framework, seed=100 + repetition)
        for p in Generic(*data.roles).fit(data.X, data.y).parameters():
            if p.identified:
                held[p.name, p.symbol].append(p.low <= data.expected(p.name, p.symbol) <= p.high)
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    count = parser.parse_args().repetitions
    print(f"{'data set':11s} {'parameter':24s} identified in  interval held the truth")
    for framework in FRAMEWORKS:
        held = recover(framework, count)
        for (name, symbol), hits in held.items():
            _line(framework, f"{name} {symbol}", f"{len(hits)}/{count}", hits)
        _line(framework, "all", "", [hit for hits in held.values() for hit in hits])


def _line(framework: str, name: str, identified: str, hits: list[bool]) -> None:
    share = f"{sum(hits)}/{len(hits)} = {sum(hits) / len(hits):.0%}"
    print(f"{framework:11s} {name:24s} {identified:>13s}  {share}", flush=True)


if __name__ == "__main__":
    main()
