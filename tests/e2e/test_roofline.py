"""AlexNet and ResNet18, timed layer by layer in PyTorch, under given roofs: every layer has its point, on its side.

The NYU report found on a GPU that AlexNet is held back by bandwidth and ResNet18 by arithmetic. A dense layer does
half a FLOP per byte and sample, so with the ridge of a CPU at 4 FLOPs per byte its side shows at a batch of 4 (on an
A100, whose ridge is at 12.5, up to 25). Whether measured points lie under measured roofs:
`benchmarks/roofline.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from steplab.analysis.roofline.points import Roofline, RooflinePoint
from steplab.api.results.rooflines import roofline
from steplab.costs.roofs import Ceiling, Ceilings, Level
from steplab.store import tables

STUDY = """
[study]
name = "nyu"
[factors]
framework = ["torch"]
network = ["alexnet", "resnet18"]
dataset = ["imagenet"]
batch_size = [4]
[design]
replicates = 1
[measure]
iterations = 2
warmup = 1
[data]
samples = 16
"""
ROOFS = Ceilings("given", (Ceiling(1, 80e9, (Level("DRAM", 20e9),)),), "file", "these tests")
COLUMNS = {"forward": "t_f", "backward": "t_b"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of both networks."""
    room = tmp_path_factory.mktemp("nyu")
    (room / "study.toml").write_text(STUDY)
    command = [Path(sys.executable).with_name("steplab"), "run", "study.toml"]
    done = subprocess.run(command, cwd=room, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return room / "runs" / "nyu"


@pytest.fixture(scope="module")
def measured(folder: Path) -> list[Roofline]:
    """The rooflines of both."""
    return roofline(folder, ROOFS).rooflines


def of(measured: list[Roofline], network: str) -> list[RooflinePoint]:
    (found,) = [one for one in measured if f"network={network}" in one.title]
    return list(found.points)


@pytest.mark.parametrize(("network", "layers"), [("alexnet", 40), ("resnet18", 120)])
def test_every_layer_has_a_point_with_the_time_that_was_measured(
    folder: Path, measured: list[Roofline], network: str, layers: int
) -> None:
    points = of(measured, network)
    assert len(points) >= layers
    assert {point.layer for point in points if point.kind == "phase"} == {"t_f", "t_b", "t_u"}
    timed = {(point.layer, point.of): point.seconds for point in points if point.kind != "phase"}
    raw = tables.load(folder).layers.to_pandas().merge(tables.load(folder).trials[["trial", "network"]], on="trial")
    medians = raw[raw["network"] == network].groupby("layer")[["t_f", "t_b"]].median()
    assert all(seconds == medians.at[layer, COLUMNS[of]] > 0 for (layer, of), seconds in timed.items())


def test_alexnets_dense_layers_stand_on_the_bandwidth_side(measured: list[Roofline]) -> None:
    dense = [point for point in of(measured, "alexnet") if point.kind == "dense"]
    assert len(dense) == 6
    assert {(point.bound, point.roof) for point in dense} == {("bandwidth", "DRAM")}


def test_resnet18s_convolutions_stand_on_the_compute_side(measured: list[Roofline]) -> None:
    sides = [point.bound for point in of(measured, "resnet18") if point.kind == "conv"]
    assert len(sides) == 40
    assert sides.count("compute") > 0.9 * len(sides)
