"""Inference trials: reading, loading and running are timed apart."""

from __future__ import annotations

import math
from typing import Any

import pytest

from steplab_worker import networks
from steplab_worker.adapters import replay, synthetic
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.kinds import infer
from steplab_worker.messages import Iterate, Measurement
from steplab_worker.placement import Placement
from steplab_worker.rendezvous import Rendezvous

LAW = {"io_s": 0.5, "h2d_s": 0.25, "compute_s": 3.0, "sample_s": 1.5}
BATCH = 4


def job() -> TrialJob:
    options = {name: said["default"] for name, said in synthetic.DECLARATION["factors"].items()}
    return TrialJob(
        trial="t", replicate=0, kind="infer", config={}, network="mlp", network_options={}, input_shape=(1, 28, 28),
        classes=10, dataset="mnist", data_folder="", batch_size=BATCH, accumulate=1, strategy="sync", optimizer="sgd",
        learning_rate=0.01, loader_workers=0, prefetch=2, options={**options, **LAW}, phases=True,
        memory_limit_bytes=0, seed=1, learns=False,
    )  # fmt: skip


def three_blocks() -> Any:
    """A laboratory that asks for a warm-up iteration, two that count, and no more."""
    answers = [
        Iterate(1, warmup=True, last=False),
        Iterate(2, warmup=False, last=True),
    ]
    return lambda message, kind: answers.pop(0)


@pytest.fixture
def measured() -> Measurement:
    group = GroupJob("synthetic", 0, 1, 1, (Placement("here", 0, "127.0.0.1"),))
    adapter = synthetic.Adapter(group, Rendezvous(group, three_blocks()))
    graph = networks.build("mlp", {n: o.default for n, o in networks.module("mlp").OPTIONS.items()}, (1, 28, 28), 10)
    return infer.run(job(), adapter.session(job(), graph, {}), three_blocks(), 0)


def test_latency_is_loading_and_forward_without_reading(measured: Measurement) -> None:
    native = measured.modes["native"]
    forward = (LAW["compute_s"] + LAW["sample_s"] * BATCH) / 3
    expected = {"t_io": LAW["io_s"] * BATCH, "t_h2d": LAW["h2d_s"] * BATCH, "t_f": forward}
    expected["t_iter"] = expected["t_h2d"] + forward
    assert native.warmup == [True, False, False]
    for name, seconds in expected.items():
        assert all(math.isclose(value, seconds) for value in native.columns[name]), name


@pytest.mark.parametrize("forgotten", [(), ("t_h2d", "t_f")])
def test_a_recorded_inference_replays_its_times(measured: Measurement, forgotten: tuple[str, ...]) -> None:
    native = measured.modes["native"]
    kept = {name: values for name, values in native.columns.items() if name not in forgotten}
    rank = {"rank": 0, "modes": {"native": {"warmup": native.warmup, "columns": kept}}, "loss": 0.0}
    session = replay.Session({"status": "ok", "reason": "", "versions": {}, "ranks": [rank]}, rank=0)
    again = infer.run(job(), session, three_blocks(), 0).modes["native"].columns
    for name, values in kept.items():
        assert again[name] == pytest.approx(values), name
