"""Steps of workers that divide the parameters: what is gathered and scattered, and what of it compute hides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steplab.core.errors import InputError
from steplab.core.resolution import graph_of, resolve
from steplab.costs.exchange import step_exchange
from steplab.costs.network import cost
from steplab.costs.operation import from_graph
from steplab.planning.network.compute import Compute
from steplab.planning.network.profile import Collective, Point, Profile
from steplab.planning.network.sharded import REST, Run, ended, gathered_again, predict_sharded
from steplab.planning.network.step import Layout
from steplab.planning.network.wires import Wires
from steplab_worker.graph import size

GPT = {"framework": "torch", "network": "gpt2", "dataset": "bytes", "layers": 3, "width": 64, "heads": 4,
       "sequence": 64, "vocabulary": 256, "batch_size": 4, "device": "cpu"}  # fmt: skip
COMPUTE = Compute(GPT, 0.01, 0.02, update=0.004, doubt=0.02, layers={}, cpus=64, threads=1, alone=np.full(40, 0.03))
LATENCY = 1e-4
TWO = Layout(2, 2)


def wires(speed: float) -> Wires:
    """An all-reduce takes a latency and its bytes by the speed."""
    sizes = [Point(bytes=size, seconds=LATENCY + size / speed) for size in (4**power for power in range(5, 14))]
    return Wires(Profile(name="x", ranks=[Collective(ranks=2, nodes=2, sizes=sizes)]))


def compute(**changed: object) -> Compute:
    return replace(COMPUTE, config=GPT | changed)


def test_on_cpus_every_byte_that_costs_count_is_exposed() -> None:
    step, speed = predict_sharded(compute(), wires(1e8), TWO), 1e8
    workload = from_graph(graph_of(COMPUTE.resolved), 4)
    sent = step_exchange(cost(workload), workload, "sharded", 2)
    collectives = 3 * 3 + 2  # blocks three times, the rest twice
    halves = (sent.all_gather_bytes + sent.reduce_scatter_bytes) / speed + collectives * LATENCY
    assert step.exposed == pytest.approx(halves / 2, rel=1e-6) == step.in_flight
    assert step.seconds == pytest.approx(0.03 + 0.004 / 2 + halves / 2)  # each updates its half
    assert step.low < step.seconds < step.high and step.buckets == collectives


def test_sharded_workers_of_one_host_tell_how_long_passes_and_updates_take() -> None:
    seen = replace(compute(), sharded_update=0.006, sharded_slower=1.4)
    step, unseen = (predict_sharded(one, wires(1e8), TWO) for one in (seen, compute()))
    assert step.compute == pytest.approx(1.4 * 0.03) and step.update == pytest.approx(0.006)
    assert step.high / step.seconds < unseen.high / unseen.seconds, "what was measured is less in doubt"


def test_gpus_hide_what_lies_behind_compute() -> None:
    shown = predict_sharded(compute(), wires(1e8), TWO)
    hidden = predict_sharded(compute(device="cuda"), wires(1e8), TWO)
    assert hidden.exposed < shown.exposed / 2 and hidden.in_flight == pytest.approx(shown.in_flight)


# Of equal blocks that compute 1 and 2 seconds.
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_short_collectives_show_at_the_ends_of_the_passes_only(blocks: int) -> None:
    runs = [Run(f"b{number}", 1.0, 2.0) for number in range(blocks)]
    gathers, scatters = ({REST: 0.125} | dict.fromkeys((run.block for run in runs), s) for s in (0.5, 0.25))
    ends = 0.125 + 0.5 + 0.5 + 0.25 + 0.125  # rest and first block; last block again; its scatter and the rest's
    assert ended(runs, gathers, scatters, overlaps=True) == pytest.approx(3 * blocks + ends)


def test_long_collectives_leave_compute_hidden_instead() -> None:
    runs = [Run(f"b{number}", 1.0, 2.0) for number in range(4)]
    each = dict.fromkeys((run.block for run in runs), 10.0)
    # The wire rests while the last block of forward computes alone: backward asks for it again only then.
    assert ended(runs, each, each, overlaps=True) == pytest.approx(12 * 10 + 1)


@pytest.mark.parametrize("recompute", [False, True])
def test_in_jax_weights_that_a_gradient_needs_are_gathered_twice(recompute: bool) -> None:
    step = predict_sharded(compute(framework="jax", recompute=recompute), wires(1e8), TWO)
    arrays = {
        f"{layer.name}.{role}": size(shape)
        for layer in graph_of(COMPUTE.resolved).layers
        for role, shape in layer.weights.items()
    }
    again = gathered_again(from_graph(graph_of(COMPUTE.resolved), 4), recompute)
    times = {name: 3 if name in again else 2 for name in arrays}
    assert step.buckets == sum(times.values())
    sent = sum(times[name] * 4 * elements for name, elements in arrays.items())
    assert step.in_flight == pytest.approx(sent / 1e8 / 2 + step.buckets * LATENCY / 2, rel=1e-6)


# Four dense layers of three blocks and the tied tokens; positions and biases are added, weights of norms kept.
# Recomputed blocks need all of their twelve arrays but the bias that is added last; the last norm is computed again.
@pytest.mark.parametrize(("recompute", "arrays"), [(False, 3 * 4 + 1), (True, 3 * 11 + 2)])
def test_gradients_of_gpt2_need_some_weights_again(recompute: bool, arrays: int) -> None:
    assert len(gathered_again(from_graph(graph_of(COMPUTE.resolved), 4), recompute)) == arrays


def test_gradients_of_lenet5_need_the_weights_of_four_layers_again() -> None:
    workload = from_graph(graph_of(resolve({"network": "lenet5"})), 4)
    assert gathered_again(workload, recompute=False) == {
        f"{name}.weight" for name in ("conv2", "dense3", "dense4", "dense5")
    }


def test_one_worker_gathers_nothing() -> None:
    assert predict_sharded(compute(), wires(1e8), Layout(1, 1)).seconds == pytest.approx(0.034)


def test_a_framework_that_does_not_shard_is_refused() -> None:
    with pytest.raises(InputError, match="tensorflow has no strategy 'sharded'"):
        predict_sharded(compute(framework="tensorflow"), wires(1e8), TWO)
