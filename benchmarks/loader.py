"""Does the loader keep up? Time waiting for data in a LeNet-5 step, and how decoding JPEG files scales.

The first part runs in the environment that `steplab env create torch` makes (found through STEPLAB_HOME); the second
needs none. Settings are measured in turns, because the machine's speed drifts; medians over the turns are shown.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS, STEPS, BATCH = 5, 120, 64
IMAGES, IMAGE_BATCH = 320, 16
SOURCES = Path(__file__).resolve().parents[1] / "src"


def lenet_waits(folder: str) -> list[dict[str, float]]:
    """Inside the torch environment: milliseconds of a step and of waiting in it, per setting and round."""
    import torch
    from torch import nn

    from steplab_worker.data import open_split
    from steplab_worker.loader import Loader

    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    dataset = open_split(folder, "mnist")

    def run(background: int, seed: int) -> dict[str, float]:
        loader, waits, steps = Loader(dataset, BATCH, seed=seed, background=background), [], []
        for _ in range(STEPS):
            begun = time.perf_counter()
            samples, labels = loader.next()
            waits.append(time.perf_counter() - begun)
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(torch.from_numpy(samples)), torch.from_numpy(labels)).backward()
            optimizer.step()
            steps.append(time.perf_counter() - begun)
        loader.close()
        # The first steps fill the caches of the framework and the loader's queue.
        steps, waits = steps[20:], waits[20:]
        return {"background": background, "step_ms": 1e3 * statistics.median(steps),
                "wait_ms": 1e3 * statistics.median(waits), "share": sum(waits) / sum(steps)}  # fmt: skip

    run(0, 0)
    return [run(background, seed) for seed in range(ROUNDS) for background in (0, 1, 2)]


def decode_threads(folder: str, background: int, seed: int) -> float:
    """Images a second through a loader with that many background workers."""
    from steplab_worker.data import open_split
    from steplab_worker.loader import Loader

    loader = Loader(open_split(folder, "imagenet"), IMAGE_BATCH, seed=seed, background=background)
    begun = time.perf_counter()
    for _ in range(IMAGES // IMAGE_BATCH):
        loader.next()
    seconds = time.perf_counter() - begun
    loader.close()
    return IMAGES / seconds


def decode_processes(folder: str, processes: int, seed: int) -> float:
    """Images a second in processes of their own that send nothing back: the most that processes could reach."""
    context = multiprocessing.get_context("spawn")
    barrier, taken = context.Barrier(processes), context.SimpleQueue()
    own = [context.Process(target=_decode_share, args=(folder, processes, seed, barrier, taken)) for _ in range(2)]
    for one in own:
        one.start()
    seconds = max(taken.get() for _ in own)
    for one in own:
        one.join()
    return IMAGES / seconds


def _decode_share(folder: str, processes: int, seed: int, barrier: Any, taken: Any) -> None:
    from steplab_worker.data import open_split
    from steplab_worker.loader import Loader

    loader = Loader(open_split(folder, "imagenet"), IMAGE_BATCH, seed=seed)
    loader.next()
    barrier.wait()
    begun = time.perf_counter()
    for _ in range(IMAGES // IMAGE_BATCH // processes):
        loader.next()
    taken.put(time.perf_counter() - begun)


def others_cores(begun: Any, seconds: float) -> float:
    """How many cores other programs kept busy since `begun` (busy and own seconds)."""
    busy, own = cpu_seconds()
    return max(0.0, (busy - begun[0]) - (own - begun[1])) / seconds


def cpu_seconds() -> tuple[float, float]:
    """Seconds all cores were busy, and those of this process and its ended children."""
    import psutil

    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice, sum(os.times()[:4])


def torch_python() -> str:
    """The interpreter of the torch environment; STEPLAB_BENCH_PYTHON names another one."""
    from steplab.runner.environments import registry

    return os.environ.get("STEPLAB_BENCH_PYTHON") or str(registry.find("torch").python)


def show_waits(folder: Path) -> None:
    import rich

    from steplab.cli._output import table

    variables = {**os.environ, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    command = [torch_python(), __file__, "--inside", str(folder)]
    rounds = json.loads(subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE).stdout)
    rows = []
    for background in (0, 1, 2):
        own = [one for one in rounds if one["background"] == background]
        step, wait, share = (statistics.median(one[key] for one in own) for key in ("step_ms", "wait_ms", "share"))
        worst = max(one["share"] for one in own)
        rows.append((background, f"{step:.2f}", f"{wait:.3f}", f"{share:.1%}", f"{worst:.1%}"))
    columns = ("background workers", "step ms", "wait ms", "share of the step", "worst round")
    rich.print(table(columns, rows, title=f"LeNet-5 on MNIST, batch {BATCH}, PyTorch, one thread (goal with 1: < 5 %)"))


def show_decoding(folder: Path) -> None:
    import rich

    from steplab.cli._output import table

    ways = {"1 thread": (decode_threads, 1), "2 threads": (decode_threads, 2), "2 processes": (decode_processes, 2)}
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for seed in range(ROUNDS):
        for way, (measure, workers) in ways.items():
            rates[way].append(measure(str(folder), workers, seed))
    rows = []
    for way, own in rates.items():
        ratios = [rate / one for rate, one in zip(own, rates["1 thread"], strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        rows.append((way, f"{statistics.median(own):.0f}", f"{statistics.median(ratios):.2f}", spread))
    rich.print(table(("JPEG decoding with", "images/s", "ratio", "over rounds"), rows))


def main() -> None:
    from steplab_worker import data

    with tempfile.TemporaryDirectory() as place:
        mnist, imagenet = Path(place) / "mnist", Path(place) / "imagenet"
        data.make(str(mnist), "mnist", 60000, seed=0)
        data.make(str(imagenet), "imagenet", IMAGES, seed=0)
        for show, folder in ((show_waits, mnist), (show_decoding, imagenet)):
            begun, start = cpu_seconds(), time.perf_counter()
            show(folder)
            print(f"other programs kept {others_cores(begun, time.perf_counter() - start):.1f} cores busy meanwhile")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        print(json.dumps(lenet_waits(sys.argv[2])))
    else:
        main()
