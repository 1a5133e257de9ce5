"""Points under roofs: layers, phases, kernels, and the chart of them."""

import pandas as pd
import pytest

from steplab.analysis.roofline.chart import figure
from steplab.analysis.roofline.kernels import kernel_points, summed
from steplab.analysis.roofline.points import Roofline, Times, above, estimated, placed, times_of, unplaced
from steplab.costs.builtin import builtin
from steplab.costs.machine_file import read_machine
from steplab.costs.network import NetworkCost, cost
from steplab.costs.roofs import Ceiling, Level
from steplab.store.foreign.ncu import Kernel

ROOFS = Ceiling(1, 80e9, (Level("L3", 75e9, 32 << 20), Level("DRAM", 20e9)))


@pytest.fixture(scope="module")
def alexnet() -> NetworkCost:
    return cost(builtin("alexnet", batch=4))


def times(network: NetworkCost, seconds: float = 1.0, **phases: float) -> Times:
    names = [layer.name for layer in network.layers]
    return Times({(name, of): seconds for name in names for of in ("forward", "backward")}, phases)  # type: ignore[misc]


def by_layer(points, of="forward"):
    return {point.layer: point for point in points if point.of == of}


def test_dense_layers_stand_on_the_bandwidth_side_and_convolutions_on_the_compute_side(alexnet: NetworkCost) -> None:
    sides = {name: point.bound for name, point in by_layer(estimated(alexnet, ROOFS)).items()}
    assert {name for name, side in sides.items() if side == "compute"} == {f"conv{i}" for i in range(1, 6)}
    assert all(sides[f"dense{i}"] == "bandwidth" for i in (6, 7, 8))


def test_a_larger_batch_takes_dense_layers_over_the_ridge() -> None:
    """Each weight is used once per sample: FLOPs per byte are half the batch."""
    point = by_layer(estimated(cost(builtin("alexnet", batch=64)), ROOFS))["dense6"]
    assert point.intensity == pytest.approx(32, rel=0.05)
    assert point.bound == "compute"
    assert (
        by_layer(estimated(cost(builtin("alexnet", batch=16)), read_machine("a100").rows[0]))["dense6"].roof == "DRAM"
    )


def test_a_point_says_what_share_of_its_roof_was_reached(alexnet: NetworkCost) -> None:
    point = by_layer(placed(alexnet, times(alexnet, 0.1), ROOFS))["conv2"]
    assert point.flops_per_s == pytest.approx(point.flops / 0.1)
    assert point.share_of_roof == pytest.approx(point.flops / 0.1 / 80e9)
    assert not point.above


def test_a_layer_in_a_cache_may_be_faster_than_main_memory(alexnet: NetworkCost) -> None:
    point = by_layer(estimated(alexnet, ROOFS))["act3"]
    assert point.roof == "L3"
    assert point.attainable == pytest.approx(point.intensity * 75e9)


def test_a_time_that_cannot_be_is_flagged_unless_it_is_too_short_to_judge(alexnet: NetworkCost) -> None:
    wrong = above(placed(alexnet, times(alexnet, 1e-4), ROOFS))
    assert {"conv2", "dense6"} <= {point.layer for point in wrong}
    assert not above(placed(alexnet, times(alexnet, 1e-5), ROOFS))


def test_layers_without_arithmetic_have_no_point(alexnet: NetworkCost) -> None:
    assert "flatten" not in by_layer(estimated(alexnet, ROOFS))


def test_a_phase_takes_at_least_as_long_as_its_layers_must(alexnet: NetworkCost) -> None:
    points = placed(alexnet, times(alexnet, t_f=1.0, t_b=2.0, t_u=0.1), ROOFS, "momentum")
    phases = {point.layer: point for point in points if point.kind == "phase"}
    layers = [point for point in points if point.of == "forward" and point.kind != "phase"]
    least = phases["t_f"].flops / phases["t_f"].attainable
    assert least == pytest.approx(sum(point.flops / point.attainable for point in layers), rel=1e-3)
    assert phases["t_u"].bytes == 5 * 4 * alexnet.parameters
    assert phases["t_u"].roof == "DRAM"
    assert phases["t_b"].share_of_roof < 1


def test_a_sharded_worker_updates_its_part_of_the_parameters(alexnet: NetworkCost) -> None:
    whole, part = (
        placed(alexnet, times(alexnet, t_f=1.0, t_b=2.0, t_u=0.1), ROOFS, "momentum", shards)[-1] for shards in (1, 2)
    )
    assert (whole.layer, part.layer) == ("t_u", "t_u")
    assert part.bytes == pytest.approx(whole.bytes / 2, rel=1e-6)


def test_times_are_medians_of_one_configuration_and_an_update_serves_an_accumulation() -> None:
    trials = pd.DataFrame({"trial": ["a", "b"], "t_f": [1.0, 3.0], "t_b": [4.0, 4.0], "t_u": [0.5, 0.5]})
    layers = pd.DataFrame(
        {"trial": ["a", "b", "c"], "layer": ["x"] * 3, "t_f": [1.0, 2.0, 99.0], "t_b": [3.0, 3.0, 99.0]}
    )
    found = times_of(trials, layers, accumulate=4)
    assert found.layers == {("x", "forward"): 1.5, ("x", "backward"): 3.0}
    assert found.phases == {"t_f": 2.0, "t_b": 4.0, "t_u": 2.0}


def test_phases_that_were_not_measured_are_left_out(alexnet: NetworkCost) -> None:
    found = times_of(
        pd.DataFrame({"trial": ["a"], "t_f": [float("nan")]}),
        pd.DataFrame({"trial": [], "layer": [], "t_f": [], "t_b": []}),
    )
    assert found == Times({}, {})
    assert placed(alexnet, found, ROOFS) == []


def test_an_inference_may_find_its_weights_in_a_cache_where_training_cannot() -> None:
    net = cost(builtin("resnet18", batch=8, input_shape=(3, 32, 32), classes=10))
    small = Ceiling(1, 80e9, (Level("L3", 75e9, 64 << 20), Level("DRAM", 20e9)))
    trained, inferred = (placed(net, Times({}, phases), small)[0] for phases in ({"t_f": 1, "t_b": 1}, {"t_f": 1}))
    assert inferred.attainable > trained.attainable


def test_timed_layers_that_the_graph_does_not_know_are_named(alexnet: NetworkCost) -> None:
    assert unplaced(alexnet, Times({("conv1", "forward"): 1.0, ("mystery", "forward"): 1.0}, {})) == ["mystery"]


def test_kernels_are_placed_by_their_counted_bytes() -> None:
    ceiling = read_machine("rtx2080").rows[0]
    launches = [Kernel("gemm", 1e9, 1e6, None, None, 1e-3), Kernel("gemm", 1e9, 3e6, None, None, 1e-3)]
    launches += [Kernel("add", 1e6, 12e6, None, None, 1e-3), Kernel("copy", 0.0, 1e6, None, None, 1e-3)]
    points = kernel_points(summed(launches), ceiling)
    assert [(point.layer, point.bound) for point in points] == [("gemm", "compute"), ("add", "bandwidth")]
    assert points[0].share_of_roof == pytest.approx(2e9 / 2e-3 / 10.6e12)


def test_what_one_launch_does_not_say_the_sum_does_not_say() -> None:
    assert (
        summed([Kernel("k", 1.0, 2.0, None, None, 1.0), Kernel("k", 1.0, None, None, None, 1.0)])[0].dram_bytes is None
    )


def test_the_chart_holds_every_roof_and_every_point(alexnet: NetworkCost) -> None:
    points = placed(alexnet, times(alexnet, 0.1, t_f=1.0), ROOFS)
    drawn = figure(Roofline("<b>mine</b>", "here", ROOFS, tuple(points)))
    lines = [trace for trace in drawn.data if trace.mode == "lines"]
    assert [line.name for line in lines] == ["peak 80 GFLOP/s", "DRAM 20 GB/s", "L3 75 GB/s"]
    assert sum(len(trace.x) for trace in drawn.data if trace.mode != "lines") == len(points)
    assert max(max(line.y) for line in lines) == pytest.approx(80e9)
    assert "&lt;b&gt;" in drawn.layout.title.text


def test_a_chart_without_points_shows_the_roofs() -> None:
    assert len(figure(Roofline("empty", "here", ROOFS, ())).data) == 3
