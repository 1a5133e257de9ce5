"""Ways to put a layer to Velox, timed: `python benchmarks/velox_formulations.py [--networks]`.

Prints CPU seconds of one run of the plan (least of several rounds, taken in turns), nanoseconds per product and the
ratio to the fastest, and the seconds that preparing took. `--networks` times whole networks in both formulations too.
Runs itself again inside the Velox environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).parents[1] / "src"
ROUNDS = 3
# name, K products per output, output channels, positions of the batch
CASES = [
    ("cnn9 conv2, 1 image", 144, 16, 784),
    ("cnn9 conv2, 10 images", 144, 16, 7840),
    ("cnn9 conv6, 10 images", 576, 64, 4000),
    ("resnet18 stage 3, 1 image", 2304, 256, 64),
    ("dense 784x512, 10 samples", 784, 512, 10),
]
# Products above which a formulation is left out, because it would take minutes or much memory.
LIMITS = {"join": 3_000_000, "literals": 1 << 40}
LITERALS = 4_000  # weights above which the literals formulation is left out, at 60 to 100 µs each
NETWORKS = [
    ("lenet5", (1, 28, 28), 10),
    ("mlp", (1, 28, 28), 10),
    ("cnn9", (3, 32, 32), 10),
    ("resnet18", (3, 32, 32), 1),
]
Run = Callable[[], object]


def join(x: np.ndarray, w: np.ndarray) -> Run:
    """Coordinate tables: (p, k, v) joined with (k, o, w) on k, v·w summed by (p, o)."""
    import pyarrow as pa
    from pyvelox.arrow import to_velox
    from pyvelox.plan_builder import PlanBuilder

    (products, positions), channels = x.shape, len(w)
    p, k = np.divmod(np.arange(positions * products), products)
    left = pa.RecordBatch.from_pydict({"p": p, "k": k, "v": np.ascontiguousarray(x.T).reshape(-1)})
    o, k2 = np.divmod(np.arange(channels * products), products)
    right = pa.RecordBatch.from_pydict({"k2": k2, "o": o, "w": w.reshape(-1)})
    built = PlanBuilder().values([to_velox(left)])
    weights = built.new_builder().values([to_velox(right)]).get_plan_node()
    built = built.hash_join(["k"], ["k2"], weights, ["p", "o", "v", "w"])
    node = built.project(["p", "o", "v * w AS y"]).aggregate(["p", "o"], ["sum(y) AS y"]).get_plan_node()
    return lambda: execute(node, (left, right))


def aggregate(x: np.ndarray, w: np.ndarray) -> Run:
    """Rows (p, k), a column of weights per output channel, sum(x * w_o) by p."""
    import pyarrow as pa
    from pyvelox.arrow import to_velox
    from pyvelox.plan_builder import PlanBuilder

    (products, positions), channels = x.shape, len(w)
    at_once = max(1, min(positions, 8192 // products))
    tiled, batches = {f"w{o}": np.tile(w[o], at_once) for o in range(channels)}, []
    for start in range(0, positions, at_once):
        number = min(at_once, positions - start)
        rows = {"p": np.repeat(np.arange(start, start + number), products)}
        rows["x"] = np.ascontiguousarray(x[:, start : start + number].T).reshape(-1)
        rows.update({name: values[: number * products] for name, values in tiled.items()})
        batches.append(to_velox(pa.RecordBatch.from_pydict(rows)))
    built = PlanBuilder().values(batches).project(["p", *(f"x * w{o} AS y{o}" for o in range(channels))])
    node = built.aggregate(["p"], [f"sum(y{o}) AS s{o}" for o in range(channels)]).get_plan_node()
    return lambda: execute(node, (tiled, batches))


def literals(x: np.ndarray, w: np.ndarray) -> Run:
    """A column per product, a written-out tree of products with literal weights per output channel."""
    import pyarrow as pa
    from pyvelox.arrow import to_velox
    from pyvelox.plan_builder import PlanBuilder

    from steplab_worker.adapters.velox.plans import balanced, column

    batch = pa.RecordBatch.from_arrays([column(row) for row in x], names=[f"x{k}" for k in range(len(x))])
    trees = [balanced([f"(x{k} * CAST({float(v)!r} AS REAL))" for k, v in enumerate(row)]) for row in w]
    built = PlanBuilder().values([to_velox(batch)])
    node = built.project([f"{tree} AS y{o}" for o, tree in enumerate(trees)]).get_plan_node()
    return lambda: execute(node, batch)


def columns(x: np.ndarray, w: np.ndarray) -> Run:
    """A column per product, a batch per output channel with its weights as one constant array."""
    from steplab_worker.adapters.velox import plans as plans

    plan = plans.Plan(*plans.in_columns(x[None], w), "y")
    result = np.empty((len(w), x.shape[1]), np.float32)
    return lambda: (plan.run(result), result)[1]


def arrays(x: np.ndarray, w: np.ndarray) -> Run:
    """A row per (position, channel), array_sum(zip_with(x, w, *))."""
    from steplab_worker.adapters.velox import plans as plans

    turned = np.ascontiguousarray(x.T)[None]
    plan = plans.Plan(*plans.in_arrays(turned, w), "y")
    result = np.empty((x.shape[1], len(w)), np.float32)
    return lambda: (plan.run(result), result, turned)[1]


FORMULATIONS = {"join": join, "aggregate": aggregate, "literals": literals, "columns": columns, "arrays": arrays}


def execute(node: object, kept: object) -> int:
    """Run a plan and drop its vectors before the runner that owns them."""
    from pyvelox.runner import LocalRunner

    runner, rows = LocalRunner(node), 0
    for vector in runner.execute():
        rows += vector.size()
        del vector
    return rows


def fits(name: str, products: int, channels: int, positions: int) -> bool:
    if name == "literals":
        return products * channels <= LITERALS
    return products * channels * positions <= LIMITS.get(name, 1 << 40)


def cpu_seconds(run: Run) -> float:
    before = time.process_time()
    run()
    return time.process_time() - before


def time_in_turns(runs: dict[str, Run]) -> dict[str, float]:
    times = {name: [cpu_seconds(run) for _ in range(1)] for name, run in runs.items()}
    for _ in range(ROUNDS - 1):
        for name, run in runs.items():
            times[name].append(cpu_seconds(run))
    return {name: min(seconds) for name, seconds in times.items()}


def layers() -> None:
    generator = np.random.default_rng(1)
    for title, products, channels, positions in CASES:
        x = generator.standard_normal((products, positions), dtype=np.float32)
        w = generator.standard_normal((channels, products), dtype=np.float32)
        runs, prepared = {}, {}
        for name, make in FORMULATIONS.items():
            if fits(name, products, channels, positions):
                before = time.process_time()
                runs[name] = make(x, w)
                prepared[name] = time.process_time() - before
        best = time_in_turns(runs)
        total, fastest = products * channels * positions, min(best.values())
        print(f"\n{title}: K={products}, {channels} channels, {positions} positions, {total / 1e6:.1f} M products")
        print(f"{'formulation':<12} {'CPU s':>8} {'ns/product':>11} {'ratio':>7} {'prepare s':>10}")
        for name in FORMULATIONS:
            if name in best:
                seconds = best[name]
                figures = (
                    f"{seconds:8.4f} {seconds / total * 1e9:11.2f} {seconds / fastest:7.1f} {prepared[name]:10.3f}"
                )
                print(f"{name:<12} {figures}", flush=True)
            else:
                print(f"{name:<12} {'left out: too long':>28}")


def pools() -> None:
    """2x2 maximum of 16 channels of 28x28, 10 images: arrays of the window against a column per element."""
    from steplab_worker.adapters.velox import plans as plans

    channels, positions, window = 16, 10 * 14 * 14, 4
    x = np.random.default_rng(1).standard_normal((channels, positions, window), dtype=np.float32)
    result = np.empty((channels, positions), np.float32)
    in_bins = plans.Plan(*plans.in_bins(x, np.array([window]), channels, "array_max"), "y")
    taps = np.ascontiguousarray(x.transpose(0, 2, 1))
    blocks = []
    for c in range(channels):
        window_columns = [(f"x{k}", plans.column(one)) for k, one in enumerate(taps[c])]
        blocks.append(plans.Block(c * positions, np.full(positions, c), window_columns))
    in_columns = plans.Plan(blocks, "greatest(x0, x1, x2, x3)", "y")
    best = time_in_turns({"arrays": lambda: in_bins.run(result), "columns": lambda: in_columns.run(result)})
    print("\n2x2 max pooling of 16x28x28, 10 images")
    for name, seconds in best.items():
        print(f"{name:<12} {seconds * 1e3:8.2f} ms  ratio {seconds / min(best.values()):.1f}")


def whole_networks() -> None:
    from steplab_worker import networks
    from steplab_worker.adapters.velox.network import Network
    from steplab_worker.weights import initial_weights

    print(f"\n{'network':<10} {'batch':>5} {'auto s':>8} {'columns s':>10} {'arrays s':>9}   CPU seconds of one batch")
    for name, shape, batch in NETWORKS:
        options = {key: option.default for key, option in networks.module(name).OPTIONS.items()}
        graph, figures = networks.build(name, options, shape, 10), []
        for formulation in ("auto", "columns", "arrays"):
            if formulation == "columns" and graph.parameters > 1_000_000:
                figures.append("-")
                continue
            network = Network(graph, initial_weights(graph, 1), batch, formulation)
            figures.append(f"{min(cpu_seconds(network.run) for _ in range(2)):.3f}")
        print(f"{name:<10} {batch:>5} {figures[0]:>8} {figures[1]:>10} {figures[2]:>9}", flush=True)


def main() -> None:
    if "--inside" not in sys.argv:
        from steplab.runner.environments.registry import find

        variables = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
        sys.exit(subprocess.call([find("velox").python, __file__, "--inside", *sys.argv[1:]], env=variables))
    layers()
    pools()
    if "--networks" in sys.argv:
        whole_networks()
    sys.stdout.flush()
    os._exit(0)  # the exit handlers of Velox may abort


if __name__ == "__main__":
    main()
