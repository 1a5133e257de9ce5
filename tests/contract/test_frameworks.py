"""What every framework must satisfy: the same network as PyTorch's, and the same training over several ranks.

A new file in steplab_worker/adapters is tested at once, in its real environment, over every network it supports; so is
an extension, where it is installed.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from steplab import kinds
from steplab.core import catalogue
from steplab.core.resolution import resolve
from steplab.costs.exchange import step_exchange
from steplab.costs.network import cost
from steplab.costs.operation import from_graph
from steplab.planning.network.sharded import gathered_again
from steplab_worker.weights import initial_weights

SEED = 1  # of the weights, as in conftest.py

REAL = [name for name in catalogue.framework_names() if catalogue.framework(name).needs_environment]
TRAINING = [name for name in REAL if "step" in catalogue.framework(name).kinds]
ACCUMULATING = [name for name in TRAINING if "accumulate" in catalogue.framework(name).strategies]
TINY = {"layers": 1, "width": 24, "heads": 3}  # of a transformer
# Small inputs, so that all frameworks take minutes. At least two positions are left to the last layers: a batch
# normalisation over a handful of values would amplify rounding.
SMALL = {
    "alexnet": {"shape": (3, 32, 32), "batch_size": 2},
    "cnn9": {"shape": (3, 16, 16)},
    "efficientnet_b0": {"shape": (3, 32, 32)},
    # At a rate of 0.002 MXNet's curve parts from PyTorch's by 2 % within ten steps, at 0.0005 by 2e-6.
    "resnet18": {"shape": (3, 16, 16), "network_options": {"filters": 16}, "learning_rate": 0.0005},
    # Over fifty layers float32 rounding flips the sign of some inputs of ReLU: PyTorch's own gradients then differ by
    # 2e-2 between float32 and float64; with tanh by 8e-5. ResNet-18 is compared with ReLU (4e-6). The gradients are
    # large: at a rate of 2e-4 the curves of PyTorch and MXNet part by 8 %, at 2e-5 by 3e-5 (the loss falls by 43 %).
    "resnet50": {
        "shape": (3, 16, 16),
        "network_options": {"activation": "tanh", "filters": 16},
        "learning_rate": 2e-5,
    },
    # At a rate of 0.002 PyTorch's own curve moves by 1e-2 when its input moves by 1e-6; at 0.0005 by 8e-4.
    "resattnet3d18": {
        "shape": (1, 32, 32, 32),
        "network_options": {"filters": 8},
        "batch_size": 2,
        "learning_rate": 0.0005,
    },
    "gpt2": {"network_options": {**TINY, "layers": 2, "sequence": 12, "vocabulary": 50}, "learning_rate": 0.05},
    "bert_base": {"network_options": {**TINY, "sequence": 12, "vocabulary": 50}, "learning_rate": 0.05},
    "vit_b16": {"shape": (3, 9, 9), "network_options": {**TINY, "patch": 4}, "learning_rate": 0.05},
    "vit_tiny": {"shape": (3, 32, 32), "network_options": TINY, "learning_rate": 0.05},
}
DATASETS = {"gpt2": "tokens", "bert_base": "wordpieces"}  # of networks that take no images
EVERY_KIND = ["every-kind-1d", "every-kind-2d", "every-kind-3d", "every-kind-of-sequence"]
INFERRED = ["cnn9", "resnet18"]  # by frameworks that are compared in training anyway
# Ways of a framework that its default does not take: each must train the same.
WAYS = [(name, {}) for name in TRAINING] + [
    ("mxnet", {"servers": 1}),
    ("tensorflow", {"loop": "fit"}),
    ("tensorflow", {"distribution": "mirrored"}),
    ("tensorflow", {"loop": "fit", "distribution": "mirrored"}),
]
# The phases of Keras' fit are those of the custom loop.
PHASED = [(name, options) for name, options in WAYS if name in ACCUMULATING and "loop" not in options]


def str_or_way(one: str | dict[str, str]) -> str:
    return one if isinstance(one, str) else "-".join(map(str, one.values())) or "default"


def supports(framework: str, network: str, kind: str, **config: str) -> bool:
    if network in EVERY_KIND:
        return catalogue.framework(framework).layers is None
    dataset = DATASETS.get(network, "cifar10")
    resolved = resolve({"framework": framework, "network": network, "dataset": dataset, **config})
    return not kinds.named(kind).unsupported(resolved)


def pairs(kind: str, names: list[str]) -> list[tuple[str, str]]:
    """Frameworks other than the reference, with the networks they support."""
    able = [name for name in REAL if name != "torch" and kind in catalogue.framework(name).kinds]
    return [(framework, network) for framework in able for network in names if supports(framework, network, kind)]


def inferences() -> list[tuple[str, str]]:
    able = pairs("infer", catalogue.network_names() + EVERY_KIND)
    return [pair for pair in able if pair[0] not in TRAINING or pair[1] in INFERRED]


@pytest.mark.parametrize(("framework", "network"), pairs("step", catalogue.network_names() + EVERY_KIND))
def test_network_learns_as_in_pytorch(ranks, framework, network):
    reference, found = ranks.against_torch(framework, "curve", network=network, **SMALL.get(network, {}))
    assert found["parameters"] == reference["parameters"]
    assert found["losses"][0] == pytest.approx(reference["losses"][0], rel=1e-4)
    assert {name: error for name, error in found["differences"].items() if not error < 1e-3} == {}
    assert found["losses"] == pytest.approx(reference["losses"], rel=1e-2)
    assert found["losses"][-1] < found["losses"][0]
    kernel = reference["attention"]  # only networks with attention have one, and every framework says which
    assert kernel in ("", "fused: flash_attention", "plain") and bool(found["attention"]) == bool(kernel)
    assert kernel.startswith("fused") or network not in DATASETS


LOWER = [name for name in TRAINING if "bfloat16" in catalogue.framework(name).precisions]


@pytest.mark.parametrize("network", ["gpt2", "lenet5"])
@pytest.mark.parametrize("framework", LOWER)
def test_a_lower_precision_learns_almost_the_same(ranks, framework, network):
    said = {"network": network, **SMALL.get(network, {})}
    reference, found = ranks.against_torch(framework, "curve", precision="bfloat16", **said)
    # bfloat16 has 8 bits: a number is off by up to 1/256, a sum of many less, and gradients more than losses.
    assert found["losses"] == pytest.approx(reference["losses"], rel=2e-2)
    assert {name: error for name, error in found["differences"].items() if not error < 0.15} == {}
    # The weights stay float32, or an update of a thousandth would be lost; that products are not float32 shows.
    assert found["losses"][-1] < found["losses"][0]
    assert abs(found["losses"][0] / reference["losses"][0] - 1) > 1e-6


RECOMPUTING = [name for name in TRAINING if catalogue.framework(name).recomputes]


@pytest.mark.parametrize("network", ["gpt2", "resnet18"])
@pytest.mark.parametrize("framework", RECOMPUTING)
def test_recomputed_blocks_learn_the_same(ranks, framework, network):
    said = {"network": network, **SMALL[network]}
    reference, found = ranks.against_torch(framework, "curve", recompute=True, **said)
    assert found["losses"] == pytest.approx(reference["losses"], rel=1e-2 if framework != "torch" else 1e-6)
    worst = 1e-3 if framework != "torch" else 1e-6
    assert {name: error for name, error in found["differences"].items() if not error < worst} == {}


@pytest.mark.parametrize("framework", RECOMPUTING)
def test_two_ranks_recompute_as_one_with_the_doubled_batch(ranks, framework):
    said = {"network": "gpt2", **SMALL["gpt2"], "recompute": True}
    one = trained(ranks, framework, updates=3, batch_size=8, **said)[0]
    for mode in ("native", "phased"):
        two = trained(ranks, framework, updates=3, workers=2, mode=mode, **said)
        assert_same("gpt2", two[0], one, SMALL["gpt2"]["network_options"])


def test_jax_computes_products_of_its_blocks_twice(ranks):
    said = {"network": "gpt2", **SMALL["gpt2"]}
    once, twice = (ranks.run("jax", {"proof": "jax_blocks"}, recompute=again, **said)[0] for again in (False, True))
    assert (once["blocks"], twice["blocks"]) == (0, SMALL["gpt2"]["network_options"]["layers"])
    assert twice["products"] > once["products"]
    said |= {"workers": 2, "strategy": "sharded"}
    kept, again = (ranks.run("jax", {"proof": "jax_shards"}, recompute=again, **said)[0] for again in (False, True))
    assert again["products"] > kept["products"]


def test_running_means_see_a_batch_once_however_often_it_runs_forward(ranks):
    said = {"network": "resnet18", **SMALL["resnet18"]}
    once, twice = (
        ranks.run("torch", {"proof": "torch_buffers"}, recompute=again, **said)[0] for again in (False, True)
    )
    assert once["buffers"] and twice["buffers"] == once["buffers"]


@pytest.mark.parametrize(("framework", "network"), inferences())
def test_inference_gives_what_pytorch_gives(ranks, framework, network):
    said = {"network": network, "kind": "infer", **SMALL.get(network, {})}
    reference, found = ranks.against_torch(framework, "inference", **said)
    assert found["differences"]["outputs"] < 1e-5
    assert bool(found["attention"]) == bool(reference["attention"])


def optimizers() -> list[tuple[str, str]]:
    others = [(name, optimizer) for name in TRAINING if name != "torch" for optimizer in ("momentum", "adam")]
    return [(name, optimizer) for name, optimizer in others if supports(name, "mlp", "step", optimizer=optimizer)]


def convolution_or_not(framework: str) -> str:
    """LeNet-5, or a network of dense layers for a framework that has no others."""
    return "lenet5" if supports(framework, "lenet5", "step") else "mlp"


@pytest.mark.parametrize(("framework", "optimizer"), optimizers())
def test_optimiser_has_the_update_rule_of_pytorch(ranks, framework, optimizer):
    said = {"network": "mlp", "optimizer": optimizer, "learning_rate": 0.001}
    assert_same("mlp", alone(ranks, framework, **said), alone(ranks, "torch", **said))


@pytest.mark.parametrize(("framework", "options"), WAYS, ids=str_or_way)
def test_two_ranks_train_as_one_with_the_doubled_batch(ranks, framework, options):
    network = convolution_or_not(framework)
    single = alone(ranks, framework, network=network, batch_size=8)
    both = trained(ranks, framework, network=network, workers=2, options=options)
    assert_same(network, both[0], single)
    for other in both[1:]:
        assert all(np.array_equal(other[name], both[0][name]) for name in single)


TRANSFORMERS = ["gpt2", "bert_base", "vit_tiny"]  # a shared embedding, hidden tokens, a class token


@pytest.mark.parametrize("network", TRANSFORMERS)
@pytest.mark.parametrize("framework", [name for name in TRAINING if supports(name, "gpt2", "step")])
def test_two_ranks_train_a_transformer_as_one_with_the_doubled_batch(ranks, framework, network):
    said = {"network": network, **SMALL[network]}
    one = trained(ranks, framework, updates=3, batch_size=8, **said)[0]
    two = trained(ranks, framework, updates=3, workers=2, **said)
    assert_same(network, two[0], one, SMALL[network]["network_options"], SMALL[network].get("shape"))


SHARDING = [name for name in TRAINING if "sharded" in catalogue.framework(name).strategies]


@pytest.mark.parametrize("more", [{"optimizer": "momentum"}, {"recompute": True}], ids=["momentum", "recomputed"])
@pytest.mark.parametrize("framework", SHARDING)
def test_sharded_ranks_train_as_synchronous_ones(ranks, framework, more):
    said = {"network": "gpt2", **SMALL["gpt2"], "workers": 2, **more, "learning_rate": 0.01}
    synchronous = trained(ranks, framework, updates=3, **said)
    sharded = trained(ranks, framework, updates=3, strategy="sharded", **said)
    for weights in sharded:
        assert_same("gpt2", weights, synchronous[0], SMALL["gpt2"]["network_options"])


# Without blocks and with Adam's counter; with running means, where building takes no half minute; other transformers.
@pytest.mark.parametrize(
    ("framework", "network"),
    [*itertools.product(SHARDING, ("lenet5", "bert_base", "vit_tiny")), ("torch", "resnet18")],
)
def test_sharded_ranks_have_the_losses_of_synchronous_ones(ranks, framework, network):
    said = {"network": network, "workers": 2, "learning_rate": 0.001, "optimizer": "adam", **SMALL.get(network, {})}
    losses = [
        [found["losses"] for found in ranks.run(framework, {"proof": "losses"}, strategy=strategy, **said)]
        for strategy in ("sync", "sharded")
    ]
    assert np.allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[0][0] != losses[0][1]  # every rank has its own batches


@pytest.mark.parametrize(
    ("network", "recompute"), [("lenet5", False), ("gpt2", False), ("resnet18", False), ("gpt2", True)]
)
def test_jax_gathers_again_what_a_gradient_needs_and_keeps_half(ranks, network, recompute):
    said = {"network": network, **SMALL.get(network, {}), "workers": 2, "strategy": "sharded", "recompute": recompute}
    graph = catalogue.build_network(network, said.get("network_options"), said.get("shape"), classes=10)
    workload, arrays = from_graph(graph, 4), sum(len(layer.weights) for layer in graph.layers)
    again = len(gathered_again(workload, recompute))
    for found in ranks.run("jax", {"proof": "jax_shards"}, **said):
        assert (found["weights"], found["all_gather"], found["reduce_scatter"]) == (arrays, arrays + again, arrays)
        assert found["kept"] == pytest.approx(cost(workload).parameters / 2, abs=arrays)


# With Adam a gradient that is zero but for rounding, as that of the keys' bias, moves its weight all the same.
@pytest.mark.parametrize(("network", "optimizer"), [("gpt2", "momentum"), ("lenet5", "adam")])
@pytest.mark.parametrize("framework", SHARDING)
def test_phases_of_a_sharded_step_add_up_to_it(ranks, framework, network, optimizer):
    said = {"network": network, **SMALL.get(network, {}), "workers": 2, "optimizer": optimizer, "learning_rate": 0.001}
    synchronous = trained(ranks, framework, updates=3, **said)
    for weights in trained(ranks, framework, updates=3, strategy="sharded", mode="phased", **said):
        assert_same(network, weights, synchronous[0], SMALL.get(network, {}).get("network_options"))


# PyTorch gathers the rest once, every block in each pass, and scatters the gradients of each; JAX gathers all at once.
@pytest.mark.parametrize(("framework", "forward", "backward"), [("torch", 3, 5), ("jax", 1, 2)])
def test_collectives_of_a_sharded_step_are_told_apart_from_its_passes(ranks, framework, forward, backward):
    said = {"network": "gpt2", **SMALL["gpt2"], "workers": 2, "strategy": "sharded"}
    for found in ranks.run(framework, {"proof": "within_passes"}, **said):
        for step in found["steps"]:
            assert [step[name][2] for name in ("forward", "backward", "update")] == [forward, backward, 0]
            assert all(min(step[name][:2]) > 0 for name in ("forward", "backward")) and step["update"][:2] == [0, 0]


@pytest.mark.parametrize("network", ["gpt2", "lenet5"])
def test_pytorch_exchanges_what_the_costs_say_and_keeps_a_part(ranks, network):
    said = {"network": network, **SMALL.get(network, {}), "workers": 2, "strategy": "sharded"}
    workload = from_graph(catalogue.build_network(network, said.get("network_options"), classes=10), 4)
    expected, counted = step_exchange(cost(workload), workload, "sharded", 2), cost(workload)
    found = ranks.run("torch", {"proof": "shard_traffic"}, **said)
    for rank in found:
        moved = {"all_gather": expected.all_gather_bytes, "reduce_scatter": expected.reduce_scatter_bytes}
        assert rank["moved"] == moved
        assert rank["seconds"][0] == rank["seconds"][1] > 0 and rank["again"] == [0.0, 0.0]
    assert sum(rank["held"] for rank in found) == 4 * counted.parameters


def test_pytorch_scales_losses_in_float16_and_keeps_the_scale(ranks):
    (found,) = ranks.run("torch", {"proof": "torch_half"}, network="mlp")
    assert 1e-6 < found["off"] < 0.02  # float16 has eleven bits
    assert found["moved"] > 0
    assert found["scales"] == [512.0, 256.0]  # doubled by each step, and as it was saved after the first


@pytest.mark.parametrize(("framework", "options"), PHASED, ids=str_or_way)
def test_phases_add_up_to_the_step(ranks, framework, options):
    network = convolution_or_not(framework)
    big = alone(ranks, framework, updates=2, network=network, batch_size=16)
    said = {"network": network, "workers": 2, "accumulate": 2, "options": options}
    for weights in trained(ranks, framework, updates=2, mode="phased", **said):
        assert_same(network, weights, big)


@pytest.mark.parametrize("framework", ACCUMULATING)
def test_accumulation_exchanges_once_in_four_batches_and_trains_as_one_big_batch(ranks, framework):
    network = convolution_or_not(framework)
    big = alone(ranks, framework, updates=2, network=network, batch_size=32)
    exchanges: list[list[int]] = []
    said = {"network": network, "workers": 2, "accumulate": 4, "exchanges": exchanges}
    for weights in trained(ranks, framework, updates=2, **said):
        assert_same(network, weights, big)
    assert exchanges == [[0, 0, 0, 1, 1, 1, 1, 2]] * 2


def alone(ranks, framework, **said):
    """The weights of one rank, trained once: several tests compare with them."""
    asked = str((framework, sorted(said.items())))
    if asked not in ranks.alone:
        (ranks.alone[asked],) = trained(ranks, framework, **said)
    return ranks.alone[asked]


def trained(ranks, framework, updates=5, exchanges=None, learning_rate=0.05, mode="native", **said):
    """The weights of each rank after some updates; in which batches there were exchanges goes into `exchanges`."""
    pattern = str(ranks.folder / "weights-%d.npz")
    proof = {"proof": "training", "mode": mode, "updates": updates, "weights": pattern}
    proof["count"] = exchanges is not None
    found = ranks.run(framework, proof, learning_rate=learning_rate, **said)
    if exchanges is not None:
        exchanges.extend(one["exchanges"] for one in found)
    return [dict(np.load(pattern % rank)) for rank in range(len(found))]


def assert_same(network, weights, expected, options=None, shape=None):
    """As far from the start, but for the rounding of float32."""
    start = initial_weights(catalogue.build_network(network, options, shape, classes=10), SEED)
    assert sorted(weights) == sorted(expected) == sorted("/".join(key) for key in start)
    for key, begun in start.items():
        found, wanted = weights["/".join(key)], expected["/".join(key)]
        moved = np.linalg.norm(wanted - begun)
        assert moved > 0, key
        assert np.linalg.norm(found - wanted) < 1e-3 * moved + 1e-7 * np.linalg.norm(begun), key
