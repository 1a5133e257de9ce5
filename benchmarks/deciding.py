"""Deciding what to measure and what to run: economy, search, comparison, and whether probabilities hold.

Pass marks, set before the first measurement on the tables that are judged:
economy    mean over tables and seeds of the trials that the adaptive design needs to reach the held-out error that
           random sampling has with its full budget, which is the whole table: at most a quarter of that budget, no
           table above a half, judged with the same predictor for all designs (`_economy` has two other readings).
best       within 3 % of the best of the whole table with 10 % of its trials, in 9 of 10 seeds on every table.
compare    differences of 5, 10 and 20 % under 15 % noise between replicates: at most 5 % wrong verdicts.
promises   deadlines and workers on known laws: probabilities within 0.10 of what happens in every class of ten per
           cent with 100 cases and more, 90 % intervals of step times hold in 85 % or more, those of `enough` too.

The designs were tuned on three tables (`_oracles.TUNED_ON`, `--tuning`) and are judged on five others. A sixth, LeNet-5
measured here, joins with `--real DIR`, the folder of `studies/lenet-economy.toml`.

    python benchmarks/deciding.py [economy|best|compare|promises] [--seeds 10] [--tuning] [--real DIR]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small

import numpy as np
import pandas as pd
from scipy import stats

from _design_peers import adaptive, random, tpe
from _economy import economy
from _oracles import JUDGED_ON, TUNED_ON, Oracle, oracles
from steplab.core.errors import InputError
from steplab.models.hybrid import Hybrid
from steplab.planning.adaptive.chooser import Aim, Observed, next_batch
from steplab.planning.adaptive.comparing import verdicts
from steplab.planning.adaptive.space import Space
from steplab.planning.candidates import candidates
from steplab.planning.deadline import plan_deadline
from steplab.planning.job import Job
from steplab.planning.workers import plan_workers

NEAR, SHARE, SUCCESSES = 1.03, 0.10, 0.9
WRONG = 0.05
PROMISED, COVERED, CASES = 0.10, 0.85, 100


def best(tables: Iterable[Oracle], seeds: int) -> bool:
    """How often each search comes within 3 % of the best with a tenth of the table."""
    passed = True
    print(f"{'table':22}{'trials':>7}" + "".join(f"{name:>16}" for name in ("adaptive", "TPE", "random")))
    for table in tables:
        budget, least = round(SHARE * len(table.y)), float(table.per_sample.min())
        rates = []
        for search in (lambda o, b, s: adaptive(o, b, s, "best"), tpe, random):
            hits = [
                table.per_sample[list(search(table, budget, seed))[-1]].min() <= NEAR * least for seed in range(seeds)
            ]
            rates.append(float(np.mean(hits)))
        passed &= rates[0] >= SUCCESSES
        print(f"{table.name:22}{budget:>7}" + "".join(f"{rate:>16.0%}" for rate in rates), flush=True)
    print(f"best: within 3 % in {SUCCESSES:.0%} of the seeds on every table {_mark(passed)}")
    return passed


def compared(difference: float, noise: float, seed: int) -> tuple[int, str]:
    """Replicates of each configuration and the verdict of the adaptive design."""
    rng = np.random.default_rng([seed, round(1000 * difference)])
    space, aim = Space(pd.DataFrame({"level": ["a", "b"]})), Aim("compare", matters=0.05, trials=4000, replicates=2000)
    observed: list[Observed] = []
    while not (batch := next_batch(space, aim, observed)).ended:
        for c in batch.choices:
            log = c.row * math.log1p(difference) + noise * rng.standard_normal()
            observed.append(Observed(c.row, c.replicate, log, 1.0, batch.number))
    logs = {row: [trial.log for trial in observed if trial.row == row] for row in (0, 1)}
    return len(observed) // 2, verdicts(logs, 0.05)[0].verdict


def compare(seeds: int = 200, noise: float = 0.15) -> bool:
    """Replicates and wrong verdicts, beside a fixed number of replicates judged by a t-test at 5 %."""
    passed = True
    for difference in (0.0, 0.05, 0.1, 0.2):
        told = [compared(difference, noise, seed) for seed in range(seeds)]
        right = ("alike",) if difference == 0 else ("faster",)
        wrong = float(np.mean([verdict not in (*right, "") for _, verdict in told]))
        open_ = float(np.mean([verdict == "" for _, verdict in told]))
        used = int(np.median([replicates for replicates, _ in told]))
        fixed = ", ".join(f"{n}: {_missed(difference, noise, n, seeds):.0%}" for n in (5, 10, 30, used))
        judged = wrong <= WRONG
        passed &= judged or difference == 0
        print(f"differ by {difference:.0%}: {used} replicates (median), wrong {wrong:.1%}, open {open_:.1%} "
              f"{_mark(judged)}; fixed numbers miss it or err: {fixed}", flush=True)  # fmt: skip
    print(f"compare: at most {WRONG:.0%} wrong verdicts {_mark(passed)}")
    return passed


def _missed(difference: float, noise: float, replicates: int, seeds: int) -> float:
    """How often a t-test of a fixed number of replicates does not say what is true."""
    rng, missed = np.random.default_rng(replicates), 0
    for _ in range(seeds):
        a, b = noise * rng.standard_normal((2, replicates))
        test = stats.ttest_ind(a, b + math.log1p(difference))
        said = test.pvalue < 0.05 and (difference == 0 or test.statistic < 0)
        missed += said if difference == 0 else not said
    return missed / seeds


LAWS = {
    "exchange by log": lambda b, w: 0.004 + 0.0005 * b + 0.006 * np.log2(w),
    "exchange by ring": lambda b, w: 0.010 + 0.001 * b + 0.03 * (w - 1) / w + 0.001 * w,
    "contention": lambda b, w: (0.002 + 0.0008 * b) * (1 + 0.06 * (w - 1)),
}


def promises(seeds: int) -> bool:
    """Whether deadlines are kept as often as promised, and intervals hold, on laws that are known."""
    chances, kept, covered, enough = [], [], [], []
    for name, law in LAWS.items():
        for seed in range(seeds):
            rng = np.random.default_rng([seed, len(name)])
            noise = float(rng.choice([0.03, 0.08, 0.15]))
            model = _fitted(law, noise, rng)
            frame = candidates(model, {})
            truth = law(frame["batch_size"].to_numpy(), frame["workers"].to_numpy())
            job = Job(100_000)
            steps = job.steps(model, frame)
            for row in range(len(frame)):
                by = float(truth[row] * steps[row] * np.exp(rng.uniform(-2, 2) * noise))
                at = {n: [repr(float(frame[n].iloc[row]))] for n in frame.columns}
                real = truth[row] * np.exp(noise * rng.standard_normal()) * steps[row]
                try:
                    told = plan_deadline(model, job, by, at).rows[0]
                except InputError as error:
                    if "nothing that was looked at" not in str(error):
                        raise
                    chances.append(0.005)  # a hopeless deadline is refused: that is a promise, too
                    kept.append(real <= by)
                    continue
                chances.append(told.probability)
                kept.append(real <= by)
                covered.append(told.total_s.low <= real <= told.total_s.high)
            enough.append(_enough_holds(model, law))
    passed = _calibrated(np.array(chances), np.array(kept))
    hold, inside = float(np.mean(covered)), float(np.mean(enough))
    passed &= hold >= COVERED and inside >= COVERED
    print(f"promises: 90 % intervals hold in {hold:.1%}, those of `enough` in {inside:.1%} (mark {COVERED:.0%}) "
          f"{_mark(passed)}")  # fmt: skip
    return passed


def _fitted(law: object, noise: float, rng: np.random.Generator) -> Hybrid:
    grid = np.array([(b, w) for b in (16.0, 32.0, 64.0, 128.0) for w in (1.0, 2.0, 4.0, 8.0, 16.0)] * 2)
    times = law(*grid.T) * np.exp(noise * rng.standard_normal(len(grid)))
    X = pd.DataFrame(grid, columns=["batch_size", "workers"])
    groups = np.tile(np.arange(len(grid) // 2), 2)
    return Hybrid((), (), ("batch_size", "workers")).fit(X, pd.Series(times, name="t_iter"), groups)


def _enough_holds(model: Hybrid, law: object) -> bool:
    counts = np.array([1, 2, 4, 8, 16])
    plan = plan_workers(model, {"batch_size": "64"}, counts.tolist())
    rates = counts / law(64.0, counts.astype(float))
    stops = np.flatnonzero(np.diff(rates / rates[0]) / np.diff(counts) < 0.5)
    true = int(counts[stops[0] if len(stops) else -1])
    return plan.enough_low <= true <= plan.enough_high


def _calibrated(chances: np.ndarray, kept: np.ndarray) -> bool:
    passed = True
    for low in np.arange(0, 1, 0.1):
        some = (chances >= low) & (chances < low + 0.1)
        if some.sum() < CASES:
            continue
        promised, happened = float(chances[some].mean()), float(kept[some].mean())
        good = abs(promised - happened) <= PROMISED
        passed &= good
        print(f"promised {promised:.2f}, kept {happened:.2f} of {some.sum()} {_mark(good)}", flush=True)
    return passed


def _mark(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=[], help="economy, best, compare, promises; all by default")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tuning", action="store_true", help="the tables that the designs were tuned on")
    parser.add_argument("--table", action="append", default=[], help="only this table")
    parser.add_argument("--real", type=Path, help="the folder of studies/lenet-economy.toml")
    given = parser.parse_args()
    names = TUNED_ON if given.tuning else JUDGED_ON + (("lenet measured",) if given.real else ())
    tables = list(oracles(tuple(given.table) or names, given.real))
    parts = {
        "economy": lambda: economy(tables, given.seeds),
        "best": lambda: best(tables, given.seeds),
        "compare": compare,
        "promises": lambda: promises(given.seeds),
    }
    passed = [parts[name]() for name in (given.what or parts)]
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
