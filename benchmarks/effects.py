"""How long the analysis of a designed experiment takes: 1,000 and 100,000 trials of six factors.

Targets: below 1 s and below 10 s, in less than 1 GB. Imports are paid by a first call that is not counted.
"""

from __future__ import annotations

import resource
import time
from itertools import product

import numpy as np
import pandas as pd

from steplab.analysis.effects.analysis import designed

SMALL = {"a": 2, "b": 3, "c": 3, "d": 2, "e": 3, "f": 3}  # 324 configurations
LARGE = {"a": 5, "b": 6, "c": 5, "d": 6, "e": 7, "f": 5}  # 31,500 configurations


def made(levels: dict[str, int], replicates: int) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    cells = pd.DataFrame(list(product(*(range(1, n + 1) for n in levels.values()))), columns=list(levels))
    frame = pd.concat([cells.assign(replicate=at) for at in range(replicates)], ignore_index=True)
    logs = 0.5 * np.log(frame["b"]) + 0.1 * frame["a"] * frame["c"] + 0.05 * rng.standard_normal(len(frame))
    return frame.assign(t_iter=np.exp(logs), status="ok", started=np.arange(len(frame)), trial=frame.index.astype(str))


def main() -> None:
    designed(made({"a": 2, "b": 2, "c": 2}, 3), ["a", "b", "c"])
    print(f"{'trials':>8} {'terms':>6} {'seconds':>8} {'target':>7} {'peak GB':>8}")
    for levels, replicates, target in ((SMALL, 3, 1.0), (LARGE, 3, 10.0)):
        trials = made(levels, replicates)
        start = time.perf_counter()
        found = designed(trials, list(levels))
        took = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{len(trials):8d} {len(found.anova):6d} {took:8.2f} {target:7.1f} {peak:8.2f}")


if __name__ == "__main__":
    main()
