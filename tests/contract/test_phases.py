"""What every training framework's phases must satisfy: they explain the step, layer by layer, and show overlap."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
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
PHASES = ["t_io", "t_h2d", "t_md", "t_f", "t_b", "t_c", "t_u"]
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
def every_framework(run: Run) -> Path:
    """LeNet-5 in all of them."""
    return run(f"framework = {json.dumps(FRAMEWORKS)}\nbatch_size = [32]\n")


def row_of(folder: Path, framework: str) -> pd.Series[Any]:
    """The one trial of a framework."""
    trials = tables.load(folder).trials.set_index("framework")
    return trials.loc[framework]


def record_of(folder: Path, framework: str) -> Record:
    """Its record."""
    return next(one for one in records.all_records(StudyFolder(folder)) if one.config["framework"] == framework)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_phases_sum_to_the_step(every_framework: Path, framework: str) -> None:
    row = row_of(every_framework, framework)
    assert row[PHASES].notna().all()
    assert row[PHASES].sum() + row["t_other"] == pytest.approx(row["t_iter_phased"])
    assert abs(row["t_other"]) <= 0.03 * row["t_iter_phased"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_dividing_the_batch_is_measured(every_framework: Path, framework: str) -> None:
    for rank in record_of(every_framework, framework).ranks:
        assert min(rank.modes["phased"].columns["t_md"]) > 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_communication_in_flight_and_exposed_is_told(every_framework: Path, framework: str) -> None:
    row, record = row_of(every_framework, framework), record_of(every_framework, framework)
    assert record.versions["overlap_method"] == OVERLAP[framework]
    assert 0 <= row["t_exposed"] <= row["t_comm"]
    assert row["t_hidden"] == row["t_comm"] - row["t_exposed"]
    assert row["t_comm"] > 0
    for rank in record.ranks:
        assert rank.modes["overlap"].warmup.count(False) == 8


def test_nothing_is_hidden_where_the_exchange_follows_backward(every_framework: Path) -> None:
    assert row_of(every_framework, "chainer")["t_hidden"] == 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_layer_is_timed_forward_and_backward(every_framework: Path, framework: str) -> None:
    record = record_of(every_framework, framework)
    assert record.versions["layer_method"] == LAYERS[framework]
    names = [layer.name for layer in networks.build("lenet5").layers]
    for rank in record.ranks:
        layers = rank.layers or []
        assert [one.layer for one in layers] == names * (len(layers) // len(names))
        convolutions = [one for one in layers if one.layer.startswith("conv")]
        assert convolutions
        assert all(one.t_f > 0 and one.t_b > 0 for one in convolutions)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_clocks_of_one_host_do_not_differ(every_framework: Path, framework: str) -> None:
    assert [rank.clock_offset_s for rank in record_of(every_framework, framework).ranks] == [0.0, 0.0]


# Hooks see the layers in the running network. Pieces are compiled alone and lack what compiling together saves.
TOLERANCE = {"hooks": 0.10, "pieces": 0.35}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_layers_sum_to_their_phase(ranks: Any, framework: str) -> None:
    for _ in range(3):  # a busy machine disturbs one comparison, hardly three
        (found,) = ranks.run(framework, {"proof": "layer_sums", "repeats": 12}, network="lenet5", batch_size=256)
        forward, backward, forward_layers, backward_layers = np.quantile(found["rows"], 0.25, axis=0)
        apart = max(abs(forward_layers / forward - 1), abs(backward_layers / backward - 1))
        if apart < TOLERANCE[found["layer_method"]]:
            return
    pytest.fail(f"the layers' sum is {apart:.0%} off: {found['rows']}")


def test_overlap_is_real_and_one_bucket_has_none(run: Run) -> None:
    large = 'framework = ["torch"]\nnetwork = ["mlp"]\nunits = [2048]\nhidden_layers = [4]\nbatch_size = [64]\n'
    folder = run(large + "bucket_mb = [25.0, 10000.0]\n")
    trials = tables.load(folder).trials.set_index("bucket_mb")
    exposed = trials["t_exposed"] / trials["t_comm"]
    assert exposed[25.0] < 0.8
    assert exposed[10000.0] == pytest.approx(1.0)


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_the_layers_loss_is_that_of_the_batch_at_hand(ranks: Any, framework: str) -> None:
    (found,) = ranks.run(framework, {"proof": "layer_loss"}, network="lenet5")
    # At outputs of zero every class has a tenth: the slope of the mean cross-entropy is (1/10 - [label])/batch.
    expected = (0.1 - np.eye(10)[found["labels"]]) / len(found["labels"])
    assert found["slope"] == pytest.approx(expected, abs=1e-6)


def test_backward_in_parts_finds_no_slopes_that_the_whole_step_does_not(ranks: Any) -> None:
    # A compiled function's own backward would find those of the samples: another convolution of the first layer.
    (found,) = ranks.run("tensorflow", {"proof": "samples_slope"}, network="lenet5")
    assert not found["whole"]
    assert not found["layer"]
