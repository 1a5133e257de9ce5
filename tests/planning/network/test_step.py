"""Steps of several hosts, from what one host measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import InputError
from steplab.planning.network.compute import Compute
from steplab.planning.network.formula import step_formula
from steplab.planning.network.profile import Collective, Point, Profile
from steplab.planning.network.sharded import predict_sharded
from steplab.planning.network.step import Calibration, Layout, Method, hiding_k, predict_step
from steplab.planning.network.wires import Wires

SIZES = [1024 * 4**power for power in range(9)]
CONFIG = {"framework": "torch", "network": "mlp", "units": 2900, "batch_size": 16}
BYTES = 4 * (784 * 2900 + 2900 + 2900 * 2900 + 2900 + 2900 * 10 + 10)


def compute(**changed: object) -> Compute:
    layers = {"dense3": 0.001, "dense2": 0.009, "dense1": 0.01}
    plain = Compute(
        CONFIG, forward=0.01, backward=0.02, update=0.004, doubt=0.02, layers=layers, cpus=64, threads=1,
        alone=np.full(40, 0.03),
    )  # fmt: skip
    return replace(plain, **changed)


def wires(speed: float, cpu: float = 0.0, latency: float = 1e-4) -> Wires:
    points = [Point(bytes=s, seconds=latency + s / speed, cpu_seconds=cpu * (latency + s / speed)) for s in SIZES]
    return Wires(Profile(name="x", ranks=[Collective(ranks=ranks, nodes=2, sizes=points) for ranks in (2, 3)]))


def test_on_a_slow_line_the_exchange_is_what_is_left() -> None:
    step = predict_step(compute(), wires(1e7), Layout(2, 2))
    hidden = 0.019  # the last layer's gradients leave after a twentieth of backward
    assert step.seconds == pytest.approx(0.034 + BYTES / 1e7 + 3e-4 - hidden, rel=0.01)
    assert step.low < step.seconds < step.high
    assert "the exchange dominates" in step.why
    assert "moving bytes" in step.why


def test_on_a_fast_line_compute_dominates() -> None:
    step = predict_step(compute(), wires(1e12), Layout(2, 2))
    assert step.seconds == pytest.approx(0.034, rel=0.02)
    assert step.speedup == pytest.approx(2.0, rel=0.02)
    assert "compute dominates" in step.why


def test_accumulating_pays_exchange_and_update_once() -> None:
    one, four = (predict_step(compute(), wires(1e7), Layout(2, 2, accumulate=k)) for k in (1, 4))
    assert 4 * four.seconds == pytest.approx(one.seconds + 3 * 0.03)


def test_each_part_left_out_makes_the_step_longer() -> None:
    usual = predict_step(compute(), wires(4e9), Layout(2, 2))
    for method in (Method(overlap=False), Method(bucket_order=False)):
        assert predict_step(compute(), wires(4e9), Layout(2, 2), method).seconds > usual.seconds


def test_a_collective_that_needs_a_core_slows_backward_only_where_cores_are_scarce() -> None:
    slow = wires(2e9, cpu=0.8)
    scarce = predict_step(compute(cpus=2), slow, Layout(2, 2, one_machine=True))
    plenty = predict_step(compute(cpus=64), slow, Layout(2, 2, one_machine=True))
    assert scarce.contention > 0.001
    assert plenty.contention == 0.0
    assert predict_step(compute(cpus=2), slow, Layout(2, 2, one_machine=True), Method(cpu=False)).contention == 0.0


def test_ranks_beyond_the_cores_take_turns_unless_it_was_measured() -> None:
    layout = Layout(3, 3, one_machine=True)
    assert predict_step(compute(cpus=2), wires(1e12), layout).compute == pytest.approx(0.045)
    measured = {3: [np.array([[0.03] * 10, [0.06] * 10, [0.03] * 10])]}
    assert predict_step(compute(cpus=2, beside=measured), wires(1e12), layout).compute == pytest.approx(0.06)


def test_company_makes_nobody_faster() -> None:
    quieter = {2: [np.full((2, 10), 0.01)]}
    assert compute(beside=quieter).slowdown(2, 1, 1) == 1.0


def test_the_slowest_of_several_machines_is_waited_for() -> None:
    uneven = np.tile([0.03, 0.03, 0.03, 0.06], 10)
    alone, many = (compute(alone=uneven).slowdown(1, machines, 1) for machines in (1, 8))
    assert (alone, many) == (1.0, 2.0)
    # Over an accumulation the iterations even out.
    assert compute(alone=uneven).slowdown(1, 8, 4) == pytest.approx(1.0)


def test_smaller_buckets_leave_earlier() -> None:
    default, small = (predict_step(compute(), wires(4e9), Layout(2, 2, bucket_mb=mb)) for mb in (0.0, 1.0))
    assert small.buckets >= default.buckets
    huge = predict_step(compute(), wires(4e9), Layout(2, 2, bucket_mb=1000.0))
    assert huge.buckets == 1
    assert huge.exposed > default.exposed


def test_the_accumulation_that_hides_grows_as_the_line_slows() -> None:
    ks = [hiding_k(compute(), wires(speed), Layout(2, 2)) for speed in (1e12, 1e9, 1e7)]
    assert ks == sorted(ks)
    assert ks[0] < ks[-1]


@pytest.mark.parametrize("speed", [1e7, 1e9, 4e9, 1e12])
def test_the_formula_of_the_sliders_is_the_schedule_with_one_message_in_flight(speed: float) -> None:
    config = CONFIG | {"framework": "synthetic"}  # all gradients in one message
    for framework in ("synthetic", "chainer"):
        own = compute(config=config | {"framework": framework})
        for k, bandwidth, latency in ((1, 1.0, 1.0), (4, 0.1, 3.0)):
            plain = wires(speed)
            there = Wires(plain.profile, bandwidth=bandwidth, latency=latency)
            step = predict_step(own, there, Layout(3, 3, accumulate=k))
            row = pd.DataFrame([{"times_bandwidth": bandwidth, "times_latency": latency, "accumulate": float(k)}])
            value = step_formula(own, plain, Layout(3, 3)).formula.evaluate(row)[0]
            assert value == pytest.approx(step.seconds)


def test_a_calibration_scales_compute_and_wires() -> None:
    plain = predict_step(compute(), wires(1e7), Layout(2, 2))
    slower = Method(calibration=Calibration(compute=1.0, wires=2.0, doubt=0.01))
    twice = predict_step(compute(), wires(1e7), Layout(2, 2), slower)
    assert twice.seconds - 0.034 == pytest.approx(2 * plain.exposed, rel=0.05)
    assert twice.high / twice.seconds < plain.high / plain.seconds


@pytest.mark.parametrize(
    ("changed", "problem"),
    [({"units": 10**9}, "mlp: units = 1000000000 must be at most"), ({"network": "module:net:make"}, "has no graph")],
)
@pytest.mark.parametrize("predict", [predict_step, predict_sharded])
def test_a_network_whose_gradients_are_not_known_is_one_sentence(predict, changed, problem) -> None:
    with pytest.raises(InputError, match=problem):
        predict(compute(config=CONFIG | changed), wires(1e7), Layout(2, 2))
