"""Does measuring disturb? steplab's native step against a bare loop written by hand in the same framework.

A real rank, started by the laboratory, runs blocks of both in turn (and of phased mode, and of PyTorch's own profiler),
in an order drawn anew for each round; several fresh processes. `tensorflow_fit` compares Keras' `fit`, to which steplab
hands batches one by one, with plain `fit` over an array. Same network, batch, optimiser, threads, files. Each
ratio is that of two blocks of one round; the interval is a bootstrap over processes and rounds. "noise" compares the
bare loop with itself. Pass mark: native / bare within 1.00 ± 0.03, or within the noise's interval where that is wider;
where the noise alone reaches beyond ± 0.15, nothing is decided.

With two workers the bare loop is the one that two ranks run, exchange and all, as users of the framework write it. It
shares the ranks' connection (a process has one process group, one strategy, one store), and their step time is the mean
over the ranks of each iteration. `tensorflow_fit` is left out: plain `fit` over an array is a loop of one process.

The last columns are page faults of a bare and of a native step. Memory that the allocator gives back to the system and
takes again at the next step costs a microsecond and more a page, and how much it gives back is a matter of the process:
both loops have hundreds of them in PyTorch, or none.

With `--cpu` the clock is the process's CPU time, which says less (no waiting) but much more on a busy machine.

    python benchmarks/not_disturbing.py [--quick] [--cpu] [--workers 1 2] [--frameworks torch]
        [--networks lenet5 resnet18]
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steplab.core import catalogue
from steplab.kinds.director import Undirected
from steplab.runner.data import datasets
from steplab.runner.environments import worker
from steplab.runner.ranks.conversation import Conversation, Failure
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.pool import Pool
from steplab_worker import data
from steplab_worker.job import TrialJob

FRAMEWORKS = ("torch", "tensorflow", "tensorflow_fit", "jax", "mxnet", "chainer")
OPTIONS = {"tensorflow_fit": {"loop": "fit"}}  # a framework with other options than its default ones
DATASETS = {"lenet5": "mnist", "resnet18": "cifar10"}
BATCH = {"lenet5": 64, "resnet18": 8}
ITERATIONS = {"lenet5": 30, "resnet18": 4}
COLUMNS = (("native / bare", "steplab", "bare"), ("noise", "bare again", "bare"),
           ("phased / native", "phased", "steplab"), ("profiler / bare", "profiler", "bare"))  # fmt: skip
MARK, BUSY = 0.03, 0.15
DEADLINE_S = 1200.0


@dataclass(frozen=True)
class Ratio:
    """A ratio of two ways with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f}-{self.high:.3f})"


def ratio(processes: list[list[dict[str, float]]], above: str, below: str) -> Ratio | None:
    """The median over all rounds; the bootstrap draws processes, then rounds within them."""
    if above not in processes[0][0]:
        return None
    each = [np.array([row[above] / row[below] for row in rows]) for rows in processes]
    rng = np.random.default_rng(1)

    def drawn() -> float:
        chosen = rng.integers(len(each), size=len(each))
        return float(np.median(np.concatenate([rng.choice(each[one], len(each[one])) for one in chosen])))

    low, high = np.quantile([drawn() for _ in range(2000)], [0.025, 0.975])
    return Ratio(float(np.median(np.concatenate(each))), float(low), float(high))


def verdict(native: Ratio | None, noise: Ratio | None) -> str:
    """Whether a native step takes as long as a bare one, as far as the noise lets that be seen."""
    assert native is not None and noise is not None  # both are always measured
    if max(noise.high - 1, 1 - noise.low) > BUSY:
        return "undecided"
    met = min(1 - MARK, noise.low) <= native.value <= max(1 + MARK, noise.high)
    return "ok" if met else "missed"


def job(framework: str, network: str, rounds: int, iterations: int, process: int, folder: Path, cpu: bool) -> TrialJob:
    """What the ranks are told."""
    known = catalogue.framework(framework.partition("_")[0])
    options = {name: option.default for name, option in known.factors.items()} | OPTIONS.get(framework, {})
    spec = data.spec(DATASETS[network])
    config: dict[str, Any] = {"bare": framework, "rounds": rounds, "threads": 1, "cpu": cpu}
    return TrialJob(
        trial="bare", replicate=process, kind="step", config=config | {"iterations": iterations},
        network=network, network_options={}, input_shape=tuple(spec.shape), classes=spec.classes,
        dataset=DATASETS[network], data_folder=str(folder), batch_size=BATCH[network], accumulate=1, strategy="sync",
        optimizer="sgd", learning_rate=0.01, loader_workers=0, prefetch=2, options=options, phases=True,
        memory_limit_bytes=0, seed=process,
    )  # fmt: skip


def measured(pool: Pool, framework: str, workers: int, work: TrialJob) -> list[dict[str, float]]:
    """The rounds of one fresh group: for each way the median of its block."""
    name = framework.partition("_")[0]
    apart = "sync" if workers > 1 and catalogue.framework(name).strategies_apart else ""
    group = pool.group(GroupKey(name, "", workers, 1, workers, apart), object(), DEADLINE_S, lambda: None)
    if isinstance(group, Failure):
        raise SystemExit(f"{framework}: {group.reason}\n{group.log_tail}")
    outcome = Conversation(group, time.monotonic() + DEADLINE_S, lambda: None).trial(work, Undirected())
    if outcome.failure is not None:
        raise SystemExit(f"{framework}: {outcome.failure.reason}\n{outcome.failure.log_tail}")
    by_rank = [json.loads(result.measurement.methods["rows"]) for _, result in sorted(outcome.results.items())]
    return [
        {way: float(np.median(np.mean([row[way] for row in rows], axis=0))) for way in rows[0]}
        for rows in zip(*by_rank, strict=True)
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="two processes, five short rounds")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time instead of wall time")
    parser.add_argument("--frameworks", nargs="+", default=FRAMEWORKS, choices=FRAMEWORKS)
    parser.add_argument("--networks", nargs="+", default=list(DATASETS), choices=list(DATASETS))
    parser.add_argument("--workers", nargs="+", default=[1, 2], type=int)
    given = parser.parse_args()
    processes, rounds = (2, 5) if given.quick else (5, 12)
    worker.WORKER = Path(__file__).with_name("_bare_rank.py")
    print(f"{processes} processes of {rounds} rounds each; ratios with 95 % intervals")
    print(f"{'':22}{'bare, ms':>9}" + "".join(f"{name:>22}" for name, *_ in COLUMNS) + f"{'faults':>14}")
    pool, missed = Pool([]), 0
    try:
        for network in given.networks:
            folder = datasets.provide(DATASETS[network], 2000).folder
            iterations = ITERATIONS[network] // (3 if given.quick else 1)
            for framework, workers in itertools.product(given.frameworks, given.workers):
                if framework == "tensorflow_fit" and workers > 1:  # plain `fit` over an array is a loop of one process
                    continue
                jobs = [job(framework, network, rounds, iterations, i, folder, given.cpu) for i in range(processes)]
                rows = [measured(pool, framework, workers, one) for one in jobs]
                bare = np.median([row["bare"] for one in rows for row in one])
                cells = [ratio(rows, above, below) for _, above, below in COLUMNS]
                faults = [
                    np.median([row[f"{way}, faults"] for one in rows for row in one]) for way in ("bare", "steplab")
                ]
                told = verdict(cells[0], cells[1])
                missed += told == "missed"
                print(
                    f"{f'{network} {framework} {workers}':22}{1e3 * bare:9.2f}"
                    + "".join(f"{one or '-'!s:>22}" for one in cells)
                    + f"{faults[0]:7.0f}{faults[1]:7.0f}  {told}"
                )  # fmt: skip
    finally:
        pool.close()
    raise SystemExit(f"{missed} of the ratios native / bare are outside of the mark" if missed else 0)


if __name__ == "__main__":
    main()
