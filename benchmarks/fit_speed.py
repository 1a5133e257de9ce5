"""Speed and quality of the generic model's fit against SciPy's differential evolution with default settings.

Source-sized problem: 1000 rows, 25 unknowns, three data sets (benchmarks/_published.py). Differential
evolution minimises the mean absolute error in the table's units within the bounds of the source, as it did;
both run here, in turn, on one thread. Ratios are of CPU time, which a neighbour on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - a script's own folder

import numpy as np
from scipy.optimize import differential_evolution

from _published import FRAMEWORKS, Published, generate
from steplab.models.base import Parameter
from steplab.models.generic import Generic

SEEDS = 10
LARGE = 100_000


def source_cost(data: Published):
    """Bounds and the source's cost: mean absolute error over a, p, levels, q and C."""
    inner, outer = (data.X[list(c)].to_numpy(float) for c in (data.intrinsic, data.extrinsic))
    levels = np.column_stack([
        (data.X[c] == level).to_numpy(float) for c in data.categorical for level in sorted(data.X[c].unique())
    ])  # fmt: skip
    n, k, m = inner.shape[1], levels.shape[1], outer.shape[1]

    def cost(x: np.ndarray) -> float:
        a, p, c, q = np.split(x[:-1], np.cumsum([n, n, k]))
        predicted = (inner**p @ a + levels @ c) * np.prod(outer**q, axis=1) + x[-1]
        return float(np.mean(np.abs(data.y - predicted)))

    bounds = [(0, 1000)] * n + [(-5, 5)] * n + [(0, 1000)] * k + [(-5, 5)] * m + [(0, 1000)]
    return cost, bounds


def evolve(data: Published) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and cost of differential evolution with SciPy's defaults."""
    cost, bounds = source_cost(data)
    began, cpu = time.perf_counter(), time.process_time()
    found = differential_evolution(cost, bounds, rng=np.random.default_rng(1))
    return time.process_time() - cpu, time.perf_counter() - began, float(found.fun)


@dataclass(frozen=True)
class Fit:
    """One fit of our side: CPU and wall seconds, cost, parameters."""

    cpu: float
    wall: float
    cost: float
    parameters: dict[tuple[str, str], Parameter]


def fits(data: Published, seeds: range) -> list[Fit]:
    """A fit from each seed."""
    made = []
    for seed in seeds:
        began, used = time.perf_counter(), time.process_time()
        model = Generic(*data.roles, seed=seed).fit(data.X, data.y)
        cpu, wall = time.process_time() - used, time.perf_counter() - began
        cost = float(np.mean(np.abs(model.predict(data.X) - data.y)))
        made.append(Fit(cpu, wall, cost, {(p.name, p.symbol): p for p in model.parameters()}))
    return made


def row(framework: str, ours: list[Fit], slow: tuple[float, float, float]) -> str:
    """A line of the table; the spread is that of every parameter which any seed calls identified."""
    cpu, wall = (float(np.median([getattr(fit, kind) for fit in ours])) for kind in ("cpu", "wall"))
    cost = max(fit.cost for fit in ours)
    tables = [fit.parameters for fit in ours]
    known = [key for key in tables[0] if any(table[key].identified for table in tables)]
    values = np.array([[table[key].value for key in known] for table in tables])
    spread = float(np.max(np.ptp(values, axis=0) / np.abs(values).mean(axis=0)))
    theirs = f"{framework:11s} {slow[0]:8.1f} {slow[1]:7.1f} {slow[2]:9.4f}"
    middle = f"{cpu:13.3f} {wall:7.3f} {cost:9.4f} | {slow[0] / cpu:5.0f} {cost / slow[2]:8.4f}"
    return f"{theirs} | {middle} | {len(known):6d}/{len(tables[0])} {spread:12.1e}"


def large() -> None:
    """Fit 100,000 rows and print seconds and peak memory; run in a process of its own."""
    data = generate("mxnet", rows=LARGE)
    began = time.perf_counter()
    Generic(*data.roles).fit(data.X, data.y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{LARGE:,} rows: {time.perf_counter() - began:.2f} s, peak memory of the process {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="only the fit of 100,000 rows")
    parser.add_argument("--without-evolution", action="store_true", help="only our side")
    parser.add_argument("--only", nargs="*", choices=FRAMEWORKS, help="only these data sets")
    asked = parser.parse_args()
    if asked.large:
        large()
        return
    Generic(*generate("mxnet").roles).fit(generate("mxnet").X, generate("mxnet").y)  # imports and caches
    print("data set    DE cpu s  wall s      cost | generic cpu s  wall s      cost | ratio  cost/DE"
          " | identified  spread over 10 seeds")  # fmt: skip
    for framework in asked.only or FRAMEWORKS:
        data = generate(framework)
        # Half of our fits before and half after the long one: whatever else runs disturbs both sides.
        ours = fits(data, range(SEEDS // 2))
        slow = (np.nan,) * 3 if asked.without_evolution else evolve(data)
        ours += fits(data, range(SEEDS // 2, SEEDS))
        print(row(framework, ours, slow), flush=True)
    subprocess.run([sys.executable, __file__, "--large"], check=True)


if __name__ == "__main__":
    main()
