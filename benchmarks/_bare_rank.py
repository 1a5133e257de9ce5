"""A rank of the benchmark not_disturbing: started by the laboratory, it runs bare loops between steplab's own blocks.

Runs inside a framework's environment (Python 3.8 syntax, NumPy).
"""

import importlib
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import numpy as np  # noqa: E402 - the path comes first

from steplab_worker import loop, rank  # noqa: E402

WARM = 5


def images(folder, dataset):
    """All images (bytes) and labels of the training files, read by hand."""
    if dataset == "mnist":
        pixels = np.fromfile(str(Path(folder) / "train-images-idx3-ubyte"), np.uint8)[16:].reshape(-1, 1, 28, 28)
        return pixels, np.fromfile(str(Path(folder) / "train-labels-idx1-ubyte"), np.uint8)[8:]
    files = sorted(Path(folder).rglob("data_batch_*.bin"))
    rows = np.concatenate([np.fromfile(str(file), np.uint8).reshape(-1, 3073) for file in files])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def batches(folder, dataset, size):
    """Shuffled batches without end, as a person feeds them by hand."""
    pixels, labels = images(folder, dataset)
    rng = np.random.default_rng(1)
    while True:
        order = rng.permutation(len(labels))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield (pixels[chosen].astype(np.float32) / 255 - 0.5) / 0.25, labels[chosen].astype(np.int64)


def timed(step, feed, iterations):
    """The bare loop: one clock read for each iteration."""
    times, before = [], time.perf_counter()
    for _ in range(iterations):
        step(*next(feed))
        now = time.perf_counter()
        times.append(now - before)
        before = now
    return times


def ways_of(job, session, source):
    """What is compared: name → a function of the number of iterations that gives their times."""
    bare = importlib.import_module("_bare_" + job.config["framework"])
    step = bare.make(job.network, job.learning_rate, job.config["threads"])
    feed = batches(job.data_folder, job.dataset, job.batch_size)
    native, phased = loop._NativeBlock(session, source), loop._PhasedBlock(session, source)
    ways = {
        "bare": lambda n: timed(step, feed, n),
        "steplab": lambda n: native(n)["t_iter"],
        "bare again": lambda n: timed(step, feed, n),
        "phased": lambda n: phased(n)["t_iter"],
    }
    if hasattr(bare, "profiled"):
        under = bare.profiled(step)
        ways["profiler"] = lambda n: under(feed, n, timed)
    return ways


def compare(job, session, ask):
    """In place of the measuring loop: blocks of every way in turn, in an order drawn for each round."""
    if job.config["cpu"]:
        time.perf_counter = time.process_time
    source = session.source()
    ways = ways_of(job, session, source)
    rng = np.random.default_rng(job.replicate)
    for name, run in ways.items():
        session.enter("phased" if name == "phased" else "native")
        run(WARM)
    rows = []
    for _ in range(job.config["rounds"]):
        row = {}
        for name in rng.permutation(list(ways)):
            session.enter("phased" if name == "phased" else "native")
            row[str(name)] = float(np.median(ways[name](job.config["iterations"])))
        rows.append(row)
    source.close()
    return {"modes": {}, "layers": None, "loss": 0.0, "rows": rows}


if __name__ == "__main__":
    loop.measure = compare
    rank.main(sys.argv[1:])
