"""Whether intervals hold where the truth is known: six laws of scaling, measured at few workers, asked at more.

Four batch sizes, three replicates, 5 % noise; measured at 1 and 2, at 1, 2 and 4, at 1, 2, 4 and 8 workers; asked at
two and four times as many. Pass mark: nominal 90 % intervals hold at least 85 % of new measurements in each family and
design where an interval is given. `python benchmarks/known_laws.py [MODEL …] [--seeds 20] [--only ring tree …]
[--workers "1, 2, 4, 8" …]`
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steplab.models import load_model_class

LEAST, NOISE, REPLICATES = 0.85, 0.05, 3
BATCHES = (32, 64, 128, 256)
DESIGNS = {"1, 2": (1, 2), "1, 2, 4": (1, 2, 4), "1, 2, 4, 8": (1, 2, 4, 8)}
Law = Callable[[np.ndarray, np.ndarray], np.ndarray]
# Seconds of a step for N workers with a batch each (amdahl: that share one).
LAWS: dict[str, Law] = {
    "ring": lambda n, b: 0.01 + 2e-4 * b + 1e-3 * (n - 1) + 0.04 * (n - 1) / n,
    "tree": lambda n, b: 0.01 + 2e-4 * b + 0.008 * np.log2(n),
    "parameter server": lambda n, b: 0.01 + 2e-4 * b + 0.005 * n * (n > 1),
    "amdahl": lambda n, b: 0.01 + 1e-3 * b / n,
    "contention": lambda n, b: (0.01 + 2e-4 * b) * (1 + 0.06 * (n - 1)),
    "step at two": lambda n, b: 0.01 + 2e-4 * b + 0.03 * (n > 1),
}


@dataclass(frozen=True)
class Tally:
    """Over the seeds: mean error in per cent, share covered, share of predictions with an interval, high over low."""

    error: float
    covered: float
    given: float
    ratio: float


def table(law: Law, workers: tuple[int, ...], rng: np.random.Generator) -> tuple[pd.DataFrame, pd.Series]:
    cells = [(n, b) for n in workers for b in BATCHES for _ in range(REPLICATES)]
    X = pd.DataFrame(cells, columns=["workers", "batch_size"]).astype(float)
    truth = law(X["workers"].to_numpy(), X["batch_size"].to_numpy())
    return X, pd.Series(truth * np.exp(NOISE * rng.standard_normal(len(X))), name="t_iter")


def tally(name: str, law: Law, workers: tuple[int, ...], seeds: int) -> Tally:
    errors, covered, ratios, asked = [], [], [], 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, y = table(law, workers, rng)
        model = load_model_class(name)(extrinsic=("workers", "batch_size")).fit(X, y)
        new, t = table(law, (2 * workers[-1], 4 * workers[-1]), rng)
        low, high = model.predict_interval(new)
        known, asked = np.isfinite(low), asked + len(new)
        errors.append(np.abs(model.predict(new) / t - 1).mean())
        covered += ((low <= t) & (t <= high))[known].tolist()
        ratios += np.log(high / low)[known].tolist()
    share = float(np.mean(covered)) if covered else np.nan
    wide = float(np.exp(np.mean(ratios))) if ratios else np.nan
    return Tally(100 * float(np.mean(errors)), share, len(covered) / asked, wide)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["auto"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--only", nargs="*", choices=LAWS, default=list(LAWS), help="these families: a long run in pieces"
    )
    parser.add_argument("--workers", nargs="*", choices=DESIGNS, default=list(DESIGNS), help="these designs")
    asked = parser.parse_args()
    failed = []
    for name in asked.models:
        print(f"{name}\n{'law':18}{'workers':12}{'off %':>8}{'covered':>9}{'given':>7}{'high/low':>10}")
        for family in asked.only:
            law = LAWS[family]
            for design in asked.workers:
                score = tally(name, law, DESIGNS[design], asked.seeds)
                print(f"{family:18}{design:12}{score.error:8.1f}{score.covered:9.2f}{score.given:7.0%}{score.ratio:10.2f}",
                      flush=True)  # fmt: skip
                if score.covered < LEAST:
                    failed.append(f"{name}, {family}, {design}")
    print("passed" if not failed else f"below {LEAST:.0%}: {'; '.join(failed)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
