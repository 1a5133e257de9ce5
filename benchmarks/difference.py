"""How often `steplab diff` calls two studies changed between which nothing changed; it promises one in twenty at most.

A pair of studies counts if any configuration, or the overall ratio, is called faster or slower. Pass mark, set before
the first run: in every design with log-normal noise at most 5 %, and what chance adds to that among so many pairs
(99 %). The last design, with rare stalls, is beyond what the rule promises; its rate is shown, and judged by 10 %.

    python benchmarks/difference.py [--pairs 1000] [--seed 11]
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.analysis.difference import Side, difference

PROMISED, STALLED = 0.05, 0.10
NOISE = 0.03


@dataclass(frozen=True)
class Design:
    """A design: configurations, replicates, how unequal their noise is, and how often a trial stalls."""

    name: str
    configurations: int
    replicates: int
    unequal: float = 1.0  # the noisiest configuration's noise over the calmest one's
    stalls: float = 0.0  # share of trials that take half as long again

    def side(self, rng: np.random.Generator) -> Side:
        """A study."""
        spreads = NOISE * self.unequal ** np.linspace(0, 1, self.configurations)
        logs = spreads[:, None] * rng.standard_normal((self.configurations, self.replicates))
        logs += np.log(1.5) * (rng.random(logs.shape) < self.stalls)
        rows = [
            {"status": "ok", "batch_size": 2**at, "workers": 1, "replicate": k, "t_iter": 0.01 * math.exp(logs[at, k])}
            for at in range(self.configurations)
            for k in range(self.replicates)
        ]
        return Side(pd.DataFrame(rows), ("batch_size", "workers"))


DESIGNS = (
    Design("one configuration, 5 replicates", 1, 5),
    Design("4 configurations, 2 replicates", 4, 2),
    Design("4 configurations, 3 replicates, noise 1 to 4", 4, 3, unequal=4.0),
    Design("12 configurations, 3 replicates", 12, 3),
    Design("12 configurations, 5 replicates, noise 1 to 4", 12, 5, unequal=4.0),
    Design("12 configurations, 5 replicates, 3 % stalls", 12, 5, stalls=0.03),
)


def called(design: Design, pairs: int, seed: int) -> float:
    """The share of pairs that are called changed."""
    rng, changed = np.random.default_rng(seed), 0
    for _ in range(pairs):
        told = difference(design.side(rng), design.side(rng))
        assert told.overall is not None
        changed += any(change.verdict for change in (told.overall, *told.changes))
    return changed / pairs


def main() -> int:
    """Judge every design."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=11)
    asked = parser.parse_args()
    failed = 0
    for design in DESIGNS:
        promised = STALLED if design.stalls else PROMISED
        most = promised + 2.33 * math.sqrt(promised * (1 - promised) / asked.pairs)
        share = called(design, asked.pairs, asked.seed)
        failed += share > most
        print(f"{design.name:48} {share:6.1%} called changed (at most {most:.1%})", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
