"""Imbalance made on purpose in real PyTorch ranks: LIF as computed by hand; rank, phase and layer named rightly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from steplab.analysis.imbalance import Imbalance, imbalance
from steplab.store import records, tables
from steplab.store.paths import StudyFolder

# The user's module: the same small network, with rank 0 hindered in one way or another. The ways of the loader are
# switched by each factory, because warm ranks keep what was patched.
OWN = """
import threading
import time
import torch
import torch.distributed as dist
from torch import nn
from steplab_worker.loader import Loader

HINDERED = 0
reading = {"sleep": 0.0, "times": 1}
first, following = Loader.__init__, Loader.next

def begin(self, dataset, batch_size, *rest, **named):
    first(self, dataset, batch_size * reading["times"], *rest, **named)

def take(self):
    time.sleep(reading["sleep"])
    return following(self)

Loader.__init__, Loader.next = begin, take

def mine():
    return dist.get_rank() == HINDERED

class Delay(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.05)
        return gradient

class SlowForward(nn.Conv2d):
    def forward(self, x):
        if mine():
            time.sleep(0.05)
        return super().forward(x)

class SlowBackward(nn.Conv2d):
    def forward(self, x):
        return Delay.apply(super().forward(x)) if mine() else super().forward(x)

def network(second, sleep=0.0, times=1):
    reading["sleep"], reading["times"] = (sleep, times) if mine() else (0.0, 1)
    layers = nn.Sequential()
    layers.add_module("conv1", nn.Conv2d(1, 4, 5))
    layers.add_module("conv2", second(4, 8, 5))
    layers.add_module("flat", nn.Flatten())
    layers.add_module("dense", nn.Linear(8 * 20 * 20, 10))
    return layers

def even():
    return network(nn.Conv2d)
def slow_forward():
    return network(SlowForward)
def slow_backward():
    return network(SlowBackward)
def slow_loader():
    return network(nn.Conv2d, sleep=0.05)
def bigger_shard():
    return network(nn.Conv2d, times=24)

def burn():
    while True:
        pass
def threads_elsewhere():
    for _ in range(4 if mine() else 0):
        threading.Thread(target=burn, daemon=True).start()
    return network(nn.Conv2d)
"""
# The threads of the last one burn until the ranks end.
CASES = ("even", "slow_forward", "slow_backward", "slow_loader", "bigger_shard", "threads_elsewhere")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of two ranks, of which rank 0 is hindered in each way."""
    room = tmp_path_factory.mktemp("hindered")
    (room / "hindered.py").write_text(OWN)
    networks = ", ".join(f'"module:hindered:{case}"' for case in CASES)
    (room / "study.toml").write_text(
        f'[study]\nname = "hindered"\n[factors]\nframework = ["torch"]\nnetwork = [{networks}]\nworkers = [2]\n'
        'batch_size = [16]\n[design]\nreplicates = 1\norder = "given"\n'
        "[measure]\niterations = 12\nwarmup = 3\n[data]\nsamples = 4000\n"
    )
    command = [Path(sys.executable).with_name("steplab"), "run", "study.toml", "--out", "out"]
    done = subprocess.run(command, cwd=room, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return room / "out"


def case_of(network: object) -> str:
    return str(network).rpartition(":")[2]


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Imbalance]:
    """What the analysis says of each case; nothing where it finds none."""
    loaded = tables.load(folder)
    names = dict(zip(loaded.trials["trial"], loaded.trials["network"].map(case_of), strict=True))
    return {names[one.trial]: one for one in imbalance(loaded.trials, loaded.iterations, loaded.layers)}


@pytest.fixture(scope="module")
def by_hand(folder: Path) -> dict[str, float]:
    """LIF = N·max t_i / Σ t_i from the raw compute times of the ranks' measured iterations."""
    made = {}
    for record in records.all_records(StudyFolder(folder)):
        compute = []
        for rank in record.ranks:
            mode = rank.modes["phased"]
            times = zip(mode.columns["t_f"], mode.columns["t_b"], mode.warmup, strict=True)
            compute.append(float(np.median([forward + backward for forward, backward, warm in times if not warm])))
        made[case_of(record.config["network"])] = len(compute) * max(compute) / sum(compute)
    return made


def test_the_load_imbalance_factor_is_the_one_computed_by_hand(folder: Path, by_hand: dict[str, float]) -> None:
    trials = tables.load(folder).trials
    assert dict(zip(trials["network"].map(case_of), trials["lif"], strict=True)) == pytest.approx(by_hand)


@pytest.mark.parametrize("case", ["slow_forward", "slow_backward", "bigger_shard", "threads_elsewhere"])
def test_more_compute_on_one_rank_raises_it(by_hand: dict[str, float], case: str) -> None:
    # A rank that computes five times as long as the other makes a factor of 2·5/6. No comparison with the even trial:
    # on a busy machine its ranks are uneven too.
    assert by_hand[case] > 1.4


@pytest.mark.parametrize(
    ("case", "phase", "words"),
    [
        ("slow_forward", "t_f", "in conv2 forward"),
        ("slow_backward", "t_b", "in conv2 backward"),
        ("slow_loader", "t_io", "reading data"),
    ],
)
def test_the_sentence_names_rank_phase_and_layer(
    found: dict[str, Imbalance], case: str, phase: str, words: str
) -> None:
    one = found[case]
    assert (one.rank, one.waits_for, one.phase) == (1, 0, phase)
    assert one.sentence.startswith("rank 1 waits ")
    assert f"of its step for rank 0, which spends it {words}" in one.sentence


def test_a_slow_loader_makes_the_other_wait_without_raising_the_factor(
    found: dict[str, Imbalance], by_hand: dict[str, float]
) -> None:
    assert found["slow_loader"].share > 0.5
    assert by_hand["slow_loader"] < by_hand["slow_forward"]


@pytest.mark.parametrize("case", ["bigger_shard", "threads_elsewhere"])
def test_a_bigger_shard_and_busy_threads_show_in_the_compute_phases(found: dict[str, Imbalance], case: str) -> None:
    one = found[case]
    assert (one.rank, one.waits_for) == (1, 0)
    # Busy threads in a rank hold up all that it does, reading too; most of which, the scheduler decides.
    assert one.phase in (("t_f", "t_b") if case == "bigger_shard" else ("t_f", "t_b", "t_io"))


def test_the_share_is_the_waiting_in_the_raw_iterations(folder: Path, found: dict[str, Imbalance]) -> None:
    for record in records.all_records(StudyFolder(folder)):
        one = found.get(case_of(record.config["network"]))
        if one is not None:
            mode = record.ranks[one.rank].modes["phased"]
            counts = ~np.asarray(mode.warmup)
            waited, took = (np.asarray(mode.columns[name])[counts].sum() for name in ("t_wait", "t_iter"))
            assert one.share == pytest.approx(waited / took)
