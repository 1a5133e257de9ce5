"""The synthetic framework: a known cost law with seeded noise on a virtual clock.

For rehearsing a study before any framework is installed, and for testing every analysis against a truth that is
known. Nothing is computed; a thousand trials take seconds. With n = workers, b = batch size, G = 4 bytes per
parameter, rank r:

    t_md      = divide_s·b·n, nothing for a single rank
    compute   = (compute_s + sample_s·b)·(1 + imbalance·[r is the last rank])·(1 + contention·(n − 1))
    t_f, t_b  = compute/3, 2·compute/3
    t_wait    = slowest rank's io + h2d + md + compute − this rank's   (the ranks meet there)
    t_move    = latency_s·log2(n) + 2·(n − 1)/n·G/bandwidth_bytes_s
    t_iter    = t_io + t_h2d + t_md + t_f + t_b + t_wait + t_move + t_u   (phased)
    t_iter    = the same with t_move reduced by hidden = min(t_move, overlap·t_b)   (native)
    t_comm    = t_wait + t_move,  t_exposed = t_comm − hidden

Phased mode meets at a barrier of barrier_s, which is no part of any phase. With `ps-async` nobody waits (t_wait = 0),
and each rank has an exchange of its own. Stamps are late by up to stamp_jitter_s, as those of a busy machine are: each
clock read by another amount, while the step itself is no longer.

A training's accuracies after e epochs are accuracy_limit − (accuracy_limit − 1/classes)·exp(−e/learn_epochs).
Looking at them takes t_f for each batch.

Each layer takes an equal part of t_f and of t_b. Each time is multiplied by exp(noise·z), z standard normal from the
seed; the first iterations cost 1 + warmup_cost·exp(−i/3) times as much.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import zlib
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from steplab_worker import adapter as base
from steplab_worker.data import spec
from steplab_worker.graph import Graph
from steplab_worker.job import TrainingPlan, TrialJob
from steplab_worker.phases import BEFORE_EXCHANGE, TIMED

DECLARATION = {
    "title": "synthetic (a known cost law)",
    "pins": [],
    "reads_data": False,
    "kinds": ["step", "train", "infer"],
    "strategies": ["sync", "accumulate", "ps-async"],
    "layers": "all",
    "factors": {
        "compute_s": {"default": 1e-3, "help": "fixed compute seconds of an iteration", "low": 0.0},
        "sample_s": {"default": 1e-4, "help": "compute seconds per sample", "low": 0.0},
        "contention": {"default": 0.0, "help": "share by which each further rank slows all", "low": 0.0},
        "imbalance": {"default": 0.0, "help": "share by which the last rank computes longer", "low": 0.0},
        "io_s": {"default": 0.0, "help": "seconds to read a sample", "low": 0.0},
        "h2d_s": {"default": 0.0, "help": "seconds to move a sample to the device", "low": 0.0},
        "divide_s": {"default": 0.0, "help": "seconds to divide a sample of the global batch", "low": 0.0},
        "update_s": {"default": 1e-4, "help": "seconds of an update", "low": 0.0},
        "latency_s": {"default": 1e-4, "help": "latency of a collective", "low": 0.0},
        "bandwidth_bytes_s": {"default": 1e9, "help": "bandwidth between ranks", "low": 1.0},
        "overlap": {"default": 0.0, "help": "share of backward that hides communication", "low": 0.0, "high": 1.0},
        "noise": {"default": 0.0, "help": "sigma of the log-normal noise", "low": 0.0, "high": 2.0},
        "barrier_s": {"default": 0.0, "help": "seconds of the barrier that phased mode adds", "low": 0.0},
        "stamp_jitter_s": {"default": 0.0, "help": "seconds by which a clock is read late, at most", "low": 0.0},
        "warmup_cost": {"default": 0.0, "help": "extra cost of the first iteration", "low": 0.0},
        "learn_epochs": {"default": 5.0, "help": "epochs in which the error falls to 1/e", "low": 1e-6},
        "accuracy_limit": {"default": 0.98, "help": "accuracy after endless training", "low": 0.0, "high": 1.0},
        "pace": {"default": 0.0, "help": "real seconds slept per virtual second", "low": 0.0},
        "fault": {
            "default": "none",
            "help": "what goes wrong in the rehearsal",
            "levels": ["none", "raise", "hang", "crash", "kill", "memory", "chatter"],
        },
        "fault_rank": {"default": 0, "help": "the rank in which it goes wrong", "low": 0},
    },
}
# The phases that the law gives, in the order in which their noise is drawn; waiting follows from them. The youngest
# phase is drawn last, so that the noise of the others stays what it was.
DRAWN = (*(name for name in TIMED if name not in ("t_wait", "t_md")), "t_md")
BEFORE_MEETING = [DRAWN.index(name) for name in BEFORE_EXCHANGE]
STAMPS = 1  # names the stream of random numbers that the stamps' jitter is drawn from
CHUNK = 256  # iterations whose noise is drawn at once


class TimeLaw:
    """The cost law of one trial: seconds of each phase, by rank and iteration."""

    def __init__(self, job: TrialJob, workers: int, gradient_bytes: int):
        self.job, self.workers, self.options = job, workers, job.options
        self.gradient_bytes = gradient_bytes
        self._chunks: Dict[Tuple[int, int], List[List[float]]] = {}

    def means(self, rank: int) -> List[float]:
        """The phases, in the order of DRAWN, without noise and without waiting."""
        o, n, b = self.options, self.workers, self.job.batch_size
        slow = 1.0 + (o["imbalance"] if rank == n - 1 and n > 1 else 0.0)
        compute = (o["compute_s"] + o["sample_s"] * b) * slow * (1.0 + o["contention"] * (n - 1))
        move = o["latency_s"] * math.log2(n) + 2 * (n - 1) / n * self.gradient_bytes / o["bandwidth_bytes_s"]
        divide = o["divide_s"] * b * n
        many = [move, o["update_s"], divide] if n > 1 else [0.0, o["update_s"], 0.0]
        return [o["io_s"] * b, o["h2d_s"] * b, compute / 3, 2 * compute / 3, *many]

    def phases(self, rank: int, iteration: int) -> Dict[str, float]:
        """The phases of one iteration of one rank, waiting for the slowest rank included."""
        chunk, row = divmod(iteration, CHUNK)
        if (rank, chunk) not in self._chunks:
            self._chunks[rank, chunk] = self._chunk(rank, chunk)
        return dict(zip((*DRAWN, "t_wait"), self._chunks[rank, chunk][row]))

    def _chunk(self, rank: int, chunk: int) -> List[List[float]]:
        """The rows of many iterations at once."""
        ranks = [self._noisy(number, chunk) for number in range(self.workers)]
        ready = np.array([times[:, BEFORE_MEETING].sum(axis=1) for times in ranks])
        own = ranks[rank].copy()
        if self.job.strategy == "ps-async":
            return np.column_stack([own, np.zeros(CHUNK)]).tolist()
        own[:, DRAWN.index("t_move")] = ranks[0][:, DRAWN.index("t_move")]  # one collective: all see the same
        return np.column_stack([own, ready.max(axis=0) - ready[rank]]).tolist()

    def _noisy(self, rank: int, chunk: int) -> np.ndarray:
        """Iterations × phases of one rank."""
        iterations = np.arange(chunk * CHUNK, (chunk + 1) * CHUNK)
        warm = 1.0 + self.options["warmup_cost"] * np.exp(-iterations / 3)
        stream = [self.job.seed, zlib.crc32(self.job.trial.encode()), rank, chunk]
        rng = np.random.default_rng(stream)
        normal = np.hstack([rng.standard_normal((CHUNK, len(DRAWN) - 1)), rng.standard_normal((CHUNK, 1))])
        return np.array(self.means(rank)) * np.exp(self.options["noise"] * normal) * warm[:, None]


class Session(base.Session):
    """A trial on the virtual clock."""

    layer_method = "hooks"

    def __init__(self, job: TrialJob, graph: Graph, rank: int, workers: int):
        self.job, self.graph, self.rank = job, graph, rank
        self.overlap_method = "hook" if workers > 1 else "none"
        self.law = TimeLaw(job, workers, 4 * graph.parameters)
        self.now = self.latest = 0.0
        self.stamps = np.random.default_rng([job.seed, zlib.crc32(job.trial.encode()), rank, 0, STAMPS])
        self.iteration = -1
        self.times: Dict[str, float] = {}
        self.exchanged = False

    def clock(self) -> float:
        """Virtual seconds, read late by up to the stamps' jitter; never backwards."""
        late = self.job.options["stamp_jitter_s"]
        if not late:
            return self.now
        self.latest = max(self.latest, self.now + late * self.stamps.random())
        return self.latest

    def source(self) -> base.Source:
        """A source whose dividing and reading only advance the clock."""
        return _Source(self)

    def advance(self, seconds: float) -> None:
        """Let virtual time pass; with a pace, real time too."""
        self.now += seconds
        if self.job.options["pace"]:
            time.sleep(seconds * self.job.options["pace"])

    def begin(self) -> None:
        """A new iteration: its phases, as if it ended an accumulation; its batch is divided."""
        self.iteration += 1
        self.times = self.law.phases(self.rank, self.iteration)
        self.exchanged = False
        self.advance(self.times["t_md"])

    def step(self, batch: Any, last: bool) -> None:
        """The whole iteration, communication hidden as far as the overlap allows."""
        t = self.times
        seconds = t["t_h2d"] + t["t_f"] + t["t_b"]
        if last:
            seconds += t["t_wait"] + t["t_move"] - self._hidden() + t["t_u"]
        self.exchanged = last
        self.advance(seconds)

    def _hidden(self) -> float:
        """The part of the collective that backward hides."""
        return min(self.times["t_move"], self.job.options["overlap"] * self.times["t_b"])

    def communication(self) -> Tuple[float, float]:
        """Waiting and moving; the same less what is hidden."""
        total = self.times["t_wait"] + self.times["t_move"]
        return (total, total - self._hidden()) if self.exchanged else (0.0, 0.0)

    def load(self, batch: Any) -> None:
        """Advance by t_h2d."""
        self.advance(self.times["t_h2d"])

    def forward(self) -> None:
        """Advance by t_f."""
        self.advance(self.times["t_f"])

    def backward(self) -> None:
        """Advance by t_b."""
        self.advance(self.times["t_b"])

    def meet(self) -> None:
        """Advance by what a barrier costs when all are there."""
        if self.law.workers > 1 and self.job.strategy != "ps-async":
            self.advance(self.job.options["barrier_s"])

    def wait(self) -> None:
        """Advance by the time until the slowest rank is ready, and by the barrier."""
        self.advance(self.times["t_wait"])
        self.meet()

    def exchange(self) -> None:
        """Advance by the collective's time."""
        self.advance(self.times["t_move"])

    def update(self) -> None:
        """Advance by t_u."""
        self.advance(self.times["t_u"])

    def infer(self) -> None:
        """Advance by a forward pass."""
        self.advance(self.times["t_f"])

    def layer_times(self, batch: Any) -> Optional[Dict[str, Dict[str, float]]]:
        """The compute time shared out equally over the layers."""
        share = 1.0 / len(self.graph.layers)
        times = {"t_f": self.times["t_f"] * share, "t_b": self.times["t_b"] * share}
        return {layer.name: dict(times) for layer in self.graph.layers}

    @property
    def batches(self) -> int:
        """Batches of an epoch of a training."""
        return TrainingPlan.of(self.job).samples // (self.law.workers * self.job.batch_size)

    def examine(self, examination: Any) -> float:
        """The accuracy by the law; the clock advances by a forward pass for each batch."""
        if not examination.samples:
            examination.samples = spec(self.job.dataset).test_samples(TrainingPlan.of(self.job).samples)
        passes = -(-examination.samples // self.job.batch_size)
        self.advance(passes * self.law.means(self.rank)[DRAWN.index("t_f")])
        limit, epochs = self.job.options["accuracy_limit"], (self.iteration + 1) / self.batches
        return limit - (limit - 1.0 / self.job.classes) * math.exp(-epochs / self.job.options["learn_epochs"])

    def state(self) -> Dict[str, np.ndarray]:
        """The clock and the number of iterations."""
        return {"now": np.array(self.now), "iteration": np.array(self.iteration)}

    def restore(self, state: Dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self.now, self.iteration = float(state["now"]), int(state["iteration"])

    def loss(self) -> float:
        """A made-up loss that falls with the iterations."""
        return math.log(10) / (1 + self.iteration)


class _Source(base.Source):
    def __init__(self, session: Session):
        self.session, self.divided = session, False

    def divide(self) -> None:
        if not self.divided:
            self.session.begin()
            self.divided = True

    def next(self) -> None:
        self.divide()
        self.divided = False
        self.session.advance(self.session.times["t_io"])

    def begin(self, epoch: int) -> int:
        return self.session.batches


def _go_wrong(fault: str) -> None:
    """Rehearse a fault."""
    if fault == "raise":
        raise RuntimeError("a rehearsed fault")
    if fault == "hang":
        signal.pause()
    if fault == "crash":
        os.abort()
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "memory":
        hoard = []
        while True:
            hoard.append(np.ones(1 << 20))
    if fault == "chatter":
        for _ in range(256):
            sys.stdout.write("x" * 65535 + "\n")
        sys.stdout.flush()


class Adapter(base.Adapter):
    """The synthetic framework in one rank."""

    computes = False

    def versions(self) -> Dict[str, str]:
        """The law's version."""
        return dict(super().versions(), synthetic="1", device="virtual")

    def session(self, job: TrialJob, graph: Graph, weights: Any) -> Session:
        """A trial of the law; a rehearsed fault happens here."""
        if job.options["fault"] != "none" and self.group.rank == job.options["fault_rank"]:
            _go_wrong(job.options["fault"])
        return Session(job, graph, self.group.rank, self.group.workers)
