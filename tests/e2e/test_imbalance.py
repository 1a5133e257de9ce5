"""Imbalance made on purpose in real PyTorch ranks, on a virtual clock: LIF, rank, phase, layer and share as made."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steplab.analysis.scaling.imbalance import Imbalance, imbalance
from steplab.store import tables

# The user's module: the same small network, with rank 0 hindered in one way or another. The ways of the loader are
# switched by each factory, because warm ranks keep what was patched.
OWN = """
import virtual_clock as clock
import torch.distributed as dist
from torch import nn
from steplab_worker.loader import Loader

HINDERED = 0
reading = {"seconds": 0.0, "times": 1}
first, following = Loader.__init__, Loader.next

def begin(self, dataset, batch_size, *rest, **named):
    first(self, dataset, batch_size * reading["times"], *rest, **named)

def take(self):
    clock.nap(reading["seconds"])
    return following(self)

Loader.__init__, Loader.next = begin, take

def mine():
    return dist.get_rank() == HINDERED

def usual(rows):
    return 1e-4 * rows, 2e-4 * rows

def network(second=usual, seconds=0.0, times=1):
    reading["seconds"], reading["times"] = (seconds, times) if mine() else (0.0, 1)
    layers = nn.Sequential()
    layers.add_module("conv1", clock.napping(nn.Conv2d, usual)(1, 4, 5))
    layers.add_module("conv2", clock.napping(nn.Conv2d, second if mine() else usual)(4, 8, 5))
    layers.add_module("flat", nn.Flatten())
    layers.add_module("dense", clock.napping(nn.Linear, usual)(8 * 20 * 20, 10))
    return layers

def even():
    return network()
def slow_forward():
    return network(lambda rows: (0.05 + usual(rows)[0], usual(rows)[1]))
def slow_backward():
    return network(lambda rows: (usual(rows)[0], 0.05 + usual(rows)[1]))
def slow_loader():
    return network(seconds=0.05)
def bigger_shard():
    return network(times=24)
"""
CASES = ("even", "slow_forward", "slow_backward", "slow_loader", "bigger_shard")
COMPUTE_S = 3 * 16 * 3e-4  # three layers, 16 samples, forward and backward
# The compute of rank 0 and of rank 1, and what rank 1 therefore waits for, by the naps above.
COMPUTE = {"even": 1.0, "slow_forward": 1 + 0.05 / COMPUTE_S, "slow_backward": 1 + 0.05 / COMPUTE_S, "slow_loader": 1.0,
           "bigger_shard": 24.0}  # fmt: skip
WAITED_S = {"slow_forward": 0.05, "slow_backward": 0.05, "slow_loader": 0.05, "bigger_shard": 23 * COMPUTE_S}
LOOKS = 0.01  # a look at the clock takes 1 µs, and there are some tens of them in a step of 14 ms or more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of two ranks, of which rank 0 is hindered in each way."""
    room = tmp_path_factory.mktemp("hindered")
    shutil.copy(Path(__file__).with_name("virtual_clock.py"), room)
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


def test_the_load_imbalance_factor_is_that_of_the_compute_times(folder: Path) -> None:
    trials = tables.load(folder).trials
    by_hand = {case: 2 * compute / (compute + 1) for case, compute in COMPUTE.items()}
    factors = dict(zip(trials["network"].map(case_of), trials["lif"], strict=True))
    assert factors == pytest.approx(by_hand, rel=LOOKS)


@pytest.mark.parametrize(
    ("case", "phase", "words"),
    [
        ("slow_forward", "t_f", "in conv2 forward"),
        ("slow_backward", "t_b", "in conv2 backward"),
        ("slow_loader", "t_io", "reading data"),
        ("bigger_shard", "t_b", "mostly in the backward pass"),
    ],
)
def test_the_sentence_names_rank_phase_and_layer(
    found: dict[str, Imbalance], case: str, phase: str, words: str
) -> None:
    one = found[case]
    assert (one.rank, one.waits_for, one.phase) == (1, 0, phase)
    assert one.sentence.startswith("rank 1 waits ")
    assert f"of its step for rank 0, which spends it {words}" in one.sentence


def test_ranks_that_are_even_are_not_said_to_wait(found: dict[str, Imbalance]) -> None:
    assert set(found) == set(WAITED_S)


@pytest.mark.parametrize("case", WAITED_S)
def test_the_share_is_what_the_hindered_rank_takes_longer(found: dict[str, Imbalance], case: str) -> None:
    assert found[case].share == pytest.approx(WAITED_S[case] / (WAITED_S[case] + COMPUTE_S), rel=LOOKS)
