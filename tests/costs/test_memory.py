"""What training holds: activations to the byte as PyTorch keeps them, sums, peaks, the largest batch."""

import pytest

from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.costs.builtin import builtin
from steplab.costs.kept_arrays import RULES
from steplab.costs.memory import largest_batch, memory
from steplab.costs.mixed_precision import COUNTED
from steplab.costs.network import cost
from steplab.costs.operation import Operation, Workload, from_graph
from steplab_worker.layers import KINDS

SMALL = {"layers": 2, "width": 24, "heads": 3, "dropout": 0.1}
TEXT = {**SMALL, "sequence": 12, "vocabulary": 50}
CASES = [
    ("lenet5", {"dropout": 0.5}, (1, 28, 28), 5),
    ("lenet5", {"kernel_size": 4, "padding": "same", "pool": "max", "activation": "silu"}, (1, 28, 28), 5),
    ("mlp", {}, (1, 28, 28), 3),
    ("autoencoder", {}, (1, 28, 28), 3),
    ("cnn9", {}, (3, 16, 16), 2),
    ("alexnet", {}, (3, 64, 64), 2),
    ("resnet18", {}, (3, 32, 32), 2),
    ("resnet50", {}, (3, 64, 64), 2),
    ("efficientnet_b0", {}, (3, 32, 32), 2),
    ("gpt2", TEXT, (1024,), 3),
    ("bert_base", TEXT, (512,), 3),
    ("vit_tiny", SMALL, (3, 32, 32), 3),
]


def graph_of(name, options, shape):
    return catalogue.build_network(name, options, shape, 10)


@pytest.fixture(scope="module")
def kept(in_torch):
    """What PyTorch keeps in each case and precision."""
    cases = [(precision, case) for precision in COUNTED for case in range(len(CASES))]
    return dict(zip(cases, in_torch("saved", [(*CASES[case], precision) for precision, case in cases]), strict=True))


@pytest.mark.parametrize("precision", COUNTED)
@pytest.mark.parametrize("case", range(len(CASES)), ids=[name for name, *_ in CASES])
def test_activations_are_those_that_pytorch_keeps(kept, case, precision):
    name, options, shape, batch = CASES[case]
    counted = memory(from_graph(graph_of(name, options, shape), batch), precision=precision)
    assert counted.activation_bytes == kept[precision, case]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_rule(kind):
    assert kind in RULES


def test_parameters_gradients_and_state_are_four_bytes_each():
    sgd, momentum, adam = (memory(builtin("lenet5", 8), name) for name in ("sgd", "momentum", "adam"))
    assert sgd.parameter_bytes == sgd.gradient_bytes == 4 * 61706
    assert [one.state_bytes for one in (sgd, momentum, adam)] == [0, 4 * 61706, 8 * 61706]
    assert adam.peak_bytes - sgd.peak_bytes == adam.state_bytes


def test_mixed_precision_halves_activations_and_leaves_what_is_learned():
    plain, mixed = (memory(builtin("resnet50", 8), "adam", precision=precision) for precision in COUNTED)
    assert (mixed.parameter_bytes, mixed.state_bytes) == (plain.parameter_bytes, plain.state_bytes)
    # All of its layers compute in bfloat16; places of maxima, statistics and the loss do not.
    assert mixed.activation_bytes - mixed.weight_copy_bytes == pytest.approx(plain.activation_bytes / 2, rel=0.05)
    assert 0 < mixed.weight_copy_bytes <= mixed.parameter_bytes / 2
    assert plain.weight_copy_bytes == 0


@pytest.mark.parametrize("name", ["lenet5", "gpt2", "resnet50"])
def test_layers_add_up(name):
    held, counted = memory(builtin(name, 2)), cost(builtin(name, 2))
    assert sum(layer.activation_bytes for layer in held.layers) == held.activation_bytes
    assert sum(layer.parameter_bytes for layer in held.layers) == held.parameter_bytes == 4 * counted.parameters
    assert [layer.name for layer in held.layers] == ["input", *(layer.name for layer in counted.layers), "loss"]


def test_the_peak_holds_all_activations_at_least_or_all_gradients():
    for batch in (1, 64):
        held = memory(builtin("lenet5", batch))
        assert held.peak_bytes > held.parameter_bytes + max(held.activation_bytes, held.gradient_bytes)
        assert held.peak_bytes < held.parameter_bytes + 3 * held.activation_bytes + held.gradient_bytes


def test_the_largest_batch_fits_and_one_more_does_not():
    for within in (3 * 10**6, 10**7, 10**9, 5 * 10**12):
        batch = largest_batch(lambda samples: memory(builtin("lenet5", samples), "adam"), within)
        assert memory(builtin("lenet5", batch), "adam").total_bytes <= within
        assert memory(builtin("lenet5", batch + 1), "adam").total_bytes > within


def test_no_batch_fits_into_less_than_the_parameters():
    assert largest_batch(lambda samples: memory(builtin("lenet5", samples)), 4 * 61706) == 0


def test_a_kind_that_is_not_known_is_said():
    odd = Operation("odd", "einsum", ("input",), ((2, 3),), (2, 3))
    with pytest.raises(InputError, match="net: what einsum keeps for backward is not known"):
        memory(Workload("net", 2, (3,), (odd,)))
