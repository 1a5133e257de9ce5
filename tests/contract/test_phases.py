"""What every training framework's phases must satisfy: each part of a step does its own work, and no other.

Nothing here compares times: how well phases and layers add up to the step is in `benchmarks/phases.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steplab.core import catalogue
from steplab.core.record import Record
from steplab.store import records, tables
from steplab.store.paths import StudyFolder
from steplab_worker import networks

Run = Callable[[str], Path]
FRAMEWORKS = [
    name
    for name in catalogue.framework_names()
    if catalogue.framework(name).needs_environment and "step" in catalogue.framework(name).kinds
]
PARTS = ("t_io", "t_h2d", "t_md", "t_f", "t_b", "t_wait", "t_move", "t_u")
OVERLAP = {"torch": "hook", "chainer": "hook", "mxnet": "difference", "tensorflow": "difference", "jax": "difference"}
LAYERS = {"torch": "hooks", "chainer": "hooks", "mxnet": "pieces", "tensorflow": "pieces", "jax": "pieces"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a study of two workers with these factors; its folder."""

    def study(factors: str) -> Path:
        room = tmp_path_factory.mktemp("phases")
        (room / "study.toml").write_text(
            f'[study]\nname = "phases"\n[factors]\nworkers = [2]\n{factors}'
            "[design]\nreplicates = 1\n[measure]\niterations = 8\nwarmup = 3\n[data]\nsamples = 2000\n"
        )
        command = [Path(sys.executable).with_name("steplab"), "run", "study.toml", "--json"]
        done = subprocess.run(command, cwd=room, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        return room / "runs" / "phases"

    return study


@pytest.fixture(scope="module")
def studied(run: Run) -> Run:
    """The folder of a small study in a framework, run when it is first asked for."""

    @cache
    def study(framework: str) -> Path:
        return run(f'framework = ["{framework}"]\nnetwork = ["{network_of(framework)}"]\nbatch_size = [32]\n')

    return study


def network_of(framework: str) -> str:
    """LeNet-5, or a network of dense layers for a framework that has no others."""
    layers = catalogue.framework(framework).layers
    return "lenet5" if layers is None or "conv" in layers else "mlp"


def row_of(folder: Path, framework: str) -> pd.Series[Any]:
    """The one trial of a framework."""
    trials = tables.load(folder).trials.set_index("framework")
    return trials.loc[framework]


def record_of(folder: Path, framework: str) -> Record:
    """Its record."""
    return next(one for one in records.all_records(StudyFolder(folder)) if one.config["framework"] == framework)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_part_of_a_step_does_its_own_work(ranks: Any, framework: str, tmp_path: Path) -> None:
    proof = {"proof": "parts", "gradients": str(tmp_path / "rank%d.npz")}
    found = ranks.run(framework, proof, workers=2, network=network_of(framework), learning_rate=0.1)
    for rank in found:
        assert [name for name, moved in rank["moved"].items() if moved > 0] == ["update"]
    first, second = (np.load(tmp_path / f"rank{rank}.npz") for rank in range(2))
    size = np.linalg.norm(first["backward"])
    # Batches of their own have gradients of their own, which only the exchange makes equal: to their mean.
    assert np.linalg.norm(first["backward"] - second["backward"]) > 0.1 * size
    for rank in (first, second):
        np.testing.assert_array_equal(rank["wait"], rank["backward"])
        # The order of a sum of two float32 and its halving.
        assert np.linalg.norm(rank["exchange"] - (first["backward"] + second["backward"]) / 2) < 1e-5 * size


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_iteration_takes_less_than_its_phases(studied: Run, framework: str) -> None:
    for rank in record_of(studied(framework), framework).ranks:
        columns = rank.modes["phased"].columns
        assert set(PARTS) < set(columns)
        explained = np.sum([columns[name] for name in PARTS], axis=0)
        assert (explained <= np.array(columns["t_iter"]) * (1 + 1e-9)).all()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_dividing_the_batch_is_measured(studied: Run, framework: str) -> None:
    for rank in record_of(studied(framework), framework).ranks:
        assert min(rank.modes["phased"].columns["t_md"]) > 0


@pytest.mark.parametrize("framework", OVERLAP)
def test_communication_is_looked_at_in_a_mode_of_its_own(studied: Run, framework: str) -> None:
    row, record = row_of(studied(framework), framework), record_of(studied(framework), framework)
    assert record.versions["overlap_method"] == OVERLAP[framework]
    assert row["t_comm"] > 0
    for rank in record.ranks:
        assert rank.modes["overlap"].warmup.count(False) == 8


@pytest.mark.parametrize("framework", [name for name, method in OVERLAP.items() if method == "hook"])
def test_only_steps_that_exchange_have_communication(ranks: Any, framework: str) -> None:
    for found in ranks.run(framework, {"proof": "watched_steps"}, workers=2, network="lenet5", accumulate=3):
        assert [total > 0 for total, _ in found["communication"]] == [False, False, True] * 2
        assert found["again"] == [0.0, 0.0]  # what was told is forgotten


@pytest.mark.parametrize("framework", [name for name, method in OVERLAP.items() if method == "difference"])
def test_a_step_alone_is_one_without_exchange(ranks: Any, framework: str, tmp_path: Path) -> None:
    proof = {"proof": "steps_apart", "weights": str(tmp_path / "rank%d.npz")}
    ranks.run(framework, proof, workers=2, network="lenet5", learning_rate=0.1)
    first, second = (np.load(tmp_path / f"rank{rank}.npz") for rank in range(2))
    step = np.linalg.norm(first["alone"] - first["together"])
    assert np.linalg.norm(first["together"] - second["together"]) < 1e-5 * step
    # Batches of their own move the weights apart, by about as much as a step moves them.
    assert np.linalg.norm(first["alone"] - second["alone"]) > 0.1 * step


@pytest.mark.parametrize("framework", ["chainer"])
def test_it_averages_when_all_gradients_are_there_so_nothing_is_hidden(ranks: Any, framework: str) -> None:
    for found in ranks.run(framework, {"proof": "averaging"}, workers=2, network="lenet5"):
        assert found["missing"] == [0, 0]


@pytest.mark.parametrize("framework", LAYERS)
def test_every_layer_is_timed_forward_and_backward(studied: Run, framework: str) -> None:
    record = record_of(studied(framework), framework)
    assert record.versions["layer_method"] == LAYERS[framework]
    names = [layer.name for layer in networks.build("lenet5").layers]
    for rank in record.ranks:
        layers = rank.layers or []
        assert [one.layer for one in layers] == names * (len(layers) // len(names))
        convolutions = [one for one in layers if one.layer.startswith("conv")]
        assert convolutions
        assert all(one.t_f > 0 and one.t_b > 0 for one in convolutions)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_clocks_of_one_host_do_not_differ(studied: Run, framework: str) -> None:
    assert [rank.clock_offset_s for rank in record_of(studied(framework), framework).ranks] == [0.0, 0.0]


MLP = {"network": "mlp", "network_options": {"units": 256, "hidden_layers": 6}}  # 2 MiB of gradients


def test_ddp_exchanges_before_all_gradients_are_there_if_it_has_several_buckets(ranks: Any) -> None:
    for found in ranks.run("torch", {"proof": "bucket_order"}, workers=2, options={"bucket_mb": 0.5}, **MLP):
        assert len(found["ready"]) > 2
        assert found["ready"] == sorted(found["ready"])
        assert found["ready"][0] <= found["gradients"] / 2


def test_ddp_exchanges_after_backward_if_it_has_one_bucket(ranks: Any) -> None:
    for found in ranks.run("torch", {"proof": "bucket_order"}, workers=2, options={"bucket_mb": 1000.0}, **MLP):
        (ready,) = found["ready"]
        assert ready >= found["gradients"] - 1  # the last one is there, whether its hook or DDP's is called first


@pytest.mark.parametrize(
    ("stamps", "flying", "exposed"),
    [
        ([(10.0, 12.0)], 2.0, 2.0),  # one bucket is sent when all is computed
        ([(10.0, 13.0), (12.0, 15.0)], 5.0, 3.0),  # the second is ready while the first is in flight
        ([(10.0, 11.0), (12.0, 15.0)], 4.0, 3.0),  # it is ready later: nothing flies from 11 to 12
        ([(12.0, 13.0), (10.0, 18.0)], 8.0, 6.0),  # the first ends last
    ],
)
def test_what_buckets_expose_comes_after_the_last_gradient(
    ranks: Any, stamps: list[tuple[float, float]], flying: float, exposed: float
) -> None:
    for found in ranks.run(
        "torch", {"proof": "bucket_times", "stamps": json.dumps(stamps)}, workers=2, network="lenet5"
    ):
        assert found["communication"] == pytest.approx([flying, exposed])


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_the_layers_loss_is_that_of_the_batch_at_hand(ranks: Any, framework: str) -> None:
    (found,) = ranks.run(framework, {"proof": "layer_loss"}, network="lenet5")
    # At outputs of zero every class has a tenth: the slope of the mean cross-entropy is (1/10 - [label])/batch.
    expected = (0.1 - np.eye(10)[found["labels"]]) / len(found["labels"])
    assert found["slope"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("framework", ["tensorflow"])
def test_backward_in_parts_finds_no_slopes_that_the_whole_step_does_not(ranks: Any, framework: str) -> None:
    # A compiled function's own backward would find those of the samples: another convolution of the first layer.
    (found,) = ranks.run(framework, {"proof": "samples_slope"}, network="lenet5")
    assert not found["whole"]
    assert not found["layer"]
