"""A rank of the benchmark not_disturbing: started by the laboratory, it runs bare loops between steplab's own blocks.

Runs inside a framework's environment (Python 3.8 syntax, NumPy).
"""

import importlib
import json
import resource
import sys
import time
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import numpy as np  # noqa: E402 - the path comes first

from steplab_worker import kinds, loop, rank  # noqa: E402
from steplab_worker.messages import Measurement, ModeTimes  # noqa: E402

WARM = 5
GROUP = [0, 1]  # this rank, and how many there are


def images(folder, dataset):
    """All images (bytes) and labels of the training files, read by hand."""
    if dataset == "mnist":
        pixels = np.fromfile(str(Path(folder) / "train-images-idx3-ubyte"), np.uint8)[16:].reshape(-1, 1, 28, 28)
        return pixels, np.fromfile(str(Path(folder) / "train-labels-idx1-ubyte"), np.uint8)[8:]
    files = sorted(Path(folder).rglob("data_batch_*.bin"))
    rows = np.concatenate([np.fromfile(str(file), np.uint8).reshape(-1, 3073) for file in files])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def batches(folder, dataset, size, rank=0, ranks=1):
    """Shuffled batches without end, as a person feeds them by hand; a share of the images for each rank."""
    pixels, labels = (one[rank::ranks] for one in images(folder, dataset))
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


def bare_block(job, session):
    """The bare loop, a function of the number of iterations that gives their times; and what else is compared."""
    bare, (rank_, ranks) = importlib.import_module("_bare_" + job.config["bare"]), GROUP
    if hasattr(bare, "make_block"):
        return bare.make_block(job, session, images(job.data_folder, job.dataset)), {}
    step = bare.make(job.network, job.learning_rate, job.config["threads"], session if ranks > 1 else None)
    feed = batches(job.data_folder, job.dataset, job.batch_size, rank_, ranks)
    further = {}
    if hasattr(bare, "profiled") and ranks == 1:
        under = bare.profiled(step)
        further["profiler"] = lambda n: under(feed, n, timed)
    return lambda n: timed(step, feed, n), further


def page_faults():
    """How often this process has been given a page of memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def ways_of(job, session, source):
    """What is compared: name → a function of the number of iterations that gives their times."""
    bare, further = bare_block(job, session)
    native, phased = loop.NativeBlock(session, source), loop.PhasedBlock(session, source)
    ways = {"bare": bare, "bare again": bare, "steplab": lambda n: native(n)["t_iter"], **further}
    # The phases of Keras' `fit` are those of the custom loop.
    return ways if "fit" in job.config["bare"] else dict(ways, phased=lambda n: phased(n)["t_iter"])


def entered(session, mode, way):
    """Enter the mode that a way of steplab's needs, if another is on; a bare loop needs none."""
    wanted = {"steplab": "native", "phased": "phased"}.get(way, mode)
    if wanted != mode:
        session.enter(wanted)
    return wanted


def compare(job, session, ask, rank):
    """In place of the measuring loop: blocks of every way in turn, in an order drawn for each round."""
    if job.config["cpu"]:
        time.perf_counter = time.process_time
    source = session.source()
    ways = ways_of(job, session, source)
    rng = np.random.default_rng(job.replicate)
    mode = ""
    for name, run in ways.items():
        mode = entered(session, mode, name)
        run(WARM)
    rows = []
    for _ in range(job.config["rounds"]):
        row = {}
        for name in map(str, rng.permutation(list(ways))):
            mode = entered(session, mode, name)
            session.meet()
            before = page_faults()
            row[name] = ways[name](job.config["iterations"])
            row[name + ", faults"] = [(page_faults() - before) / job.config["iterations"]]
        rows.append(row)
    source.close()
    return Measurement({"native": ModeTimes({"t_iter": []}, [])}, 0.0, methods={"rows": json.dumps(rows)})


def opened(group, rendezvous):
    """In place of opening the adapter: note which rank this is, then open it."""
    GROUP[:] = [group.rank, group.workers]
    return rank_open(group, rendezvous)


if __name__ == "__main__":
    rank_open = rank._open
    rank._open = opened
    kinds.module = lambda name: types.SimpleNamespace(run=compare)
    rank.main(sys.argv[1:])
