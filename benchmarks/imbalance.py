"""Who waits for whom in 100,000 trials: seconds for ten million iteration rows, on one thread.

.venv/bin/python benchmarks/imbalance.py [TRIALS]
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa

from steplab.analysis.scaling.imbalance import imbalance

RANKS, ITERATIONS, SLOW = 2, 50, 1.3


def tables(trials: int) -> tuple[pd.DataFrame, pa.Table, pa.Table]:
    """Trials in which the last rank computes 30 % longer, with 10 % of noise."""
    rng, n = np.random.default_rng(0), trials * RANKS * ITERATIONS
    names = pa.array([f"{i:016x}" for i in range(trials)])
    rank = np.tile(np.repeat(np.arange(RANKS, dtype=np.int32), ITERATIONS), trials)
    forward = rng.lognormal(-5, 0.1, n) * np.where(rank == RANKS - 1, SLOW, 1.0)
    ready = 3 * forward.reshape(trials, RANKS, ITERATIONS)
    wait = (ready.max(axis=1, keepdims=True) - ready).reshape(-1)
    nothing, phased = np.zeros(n), pa.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), pa.array(["phased"]))
    columns = {
        "trial": names.take(np.repeat(np.arange(trials), RANKS * ITERATIONS)),
        "mode": phased.cast(pa.string()),
        "rank": rank,
        "iteration": np.tile(np.arange(ITERATIONS, dtype=np.int32), trials * RANKS),
        "warmup": np.zeros(n, dtype=bool),
        "t_iter": 3 * forward + wait,
        "t_f": forward,
        "t_b": 2 * forward,
        "t_wait": wait,
    }
    iterations = pa.table(columns | dict.fromkeys(("t_io", "t_h2d", "t_md"), nothing))
    layers = pa.table({"trial": pa.array([], pa.string()), "rank": pa.array([], pa.int32())})
    about = {"trial": names.to_pylist(), "status": "ok", "workers": RANKS, "lif": 2 * SLOW / (1 + SLOW)}
    return pd.DataFrame(about), iterations, layers


def main() -> None:
    trials, iterations, layers = tables(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    print(f"{len(trials):,} trials, {iterations.num_rows:,} iteration rows")
    for most in (10, None):
        began, cpu = time.perf_counter(), time.process_time()
        found = imbalance(trials, iterations, layers, most)
        spent, worked = time.perf_counter() - began, time.process_time() - cpu
        print(f"worst {most or 'of all'}: {len(found):,} findings in {spent:.1f} s ({worked:.1f} s of CPU)")
    print(found[0].sentence)


if __name__ == "__main__":
    main()
