"""Totals of whole networks, updates, and the document of `inspect --json`."""

import pytest

from steplab.core.errors import InputError
from steplab.costs.builtin import builtin
from steplab.costs.document import document
from steplab.costs.network import OPTIMIZERS, cost, update


@pytest.mark.parametrize(
    ("name", "gigaflops"), [("alexnet", 1.43), ("resnet18", 3.63), ("resnet50", 8.18), ("efficientnet_b0", 0.77)]
)
def test_forward_flops_of_one_image_of_224_pixels(name, gigaflops):
    made = cost(builtin(name, 1, (3, 224, 224)))
    assert made.totals.forward_matmul_flops / 1e9 == pytest.approx(gigaflops, rel=0.02)


def test_forward_flops_of_a_token_are_those_of_the_closed_formula():
    # A. Chowdhery et al., "PaLM", JMLR 24, 2023, appendix B: 2 per weight of a product, and 4·layers·width·sequence.
    layers, width, sequence, vocabulary, batch = 12, 768, 1024, 50257, 2
    weights = layers * 12 * width**2 + vocabulary * width
    made = cost(builtin("gpt2", batch)).totals
    token = 2 * weights + 4 * layers * width * sequence
    assert made.forward_matmul_flops == batch * sequence * token
    assert made.forward_matmul_flops + made.backward_matmul_flops == 3 * batch * sequence * token


def test_a_weight_that_two_layers_share_is_counted_once():
    made = cost(builtin("gpt2"))
    parameters = {layer.name: layer.parameters for layer in made.layers}
    assert (parameters["tokens"], parameters["logits"]) == (50257 * 768, 0)
    assert sum(parameters.values()) == made.parameters == 124439808


def test_update_costs_by_hand():
    sgd, momentum, adam = (update(1000, name) for name in OPTIMIZERS)
    assert (sgd.flops, momentum.flops, adam.flops) == (2000, 4000, 14000)
    assert (sgd.bytes_read, sgd.bytes_written, sgd.state_bytes) == (8000, 4000, 0)
    assert (momentum.bytes_read, momentum.bytes_written, momentum.state_bytes) == (12000, 8000, 4000)
    assert (adam.bytes_read, adam.bytes_written, adam.state_bytes) == (16000, 12000, 8000)


def test_gradients_to_exchange_are_four_bytes_a_parameter():
    made = cost(builtin("resnet50"))
    assert made.gradient_bytes == 4 * 25557032 == sum(layer.gradient_bytes for layer in made.layers)


def test_the_document_has_what_it_promises():
    made = document(cost(builtin("resnet50", 8)))
    promised = {"network", "batch", "parameters", "forward_flops", "forward_matmul_flops", "backward_flops"}
    assert promised | {"forward_bytes", "layers"} <= set(made)
    assert (made["network"], made["batch"], made["parameters"]) == ("resnet50", 8, 25557032)
    assert made["convention"] == "1 multiply-add = 2 FLOPs"
    wanted = {"name", "kind", "output_shape", "parameters", "forward_flops", "backward_flops", "forward_bytes"}
    assert all(wanted <= set(layer) for layer in made["layers"])
    assert made["layers"][0]["output_shape"] == [64, 112, 112]
    for name in ("forward_flops", "backward_flops", "forward_bytes", "parameters"):
        assert made[name] == sum(layer[name] for layer in made["layers"])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet5", {}, "there is no network 'resnet5'; did you mean 'resnet50'"),
        ("lenet5", {"filter": "8"}, "lenet5 has no option 'filter'; did you mean 'filters'"),
        ("lenet5", {"filters": "many"}, "option filters must be of the kind of 6, not 'many'"),
        ("lenet5", {"activation": "swish"}, "option activation must be one of"),
        ("cnn9", {"batch_norm": "perhaps"}, "option batch_norm must be one of"),
        ("lenet5", {"kernel_size": "40"}, "does not fit"),
    ],
)
def test_a_wrong_network_or_option_is_said(name, options, message):
    with pytest.raises(InputError, match=message):
        builtin(name, options=options)


def test_options_are_read_by_their_kind():
    assert cost(builtin("cnn9", options={"filters": "8", "batch_norm": "true"})).parameters < 75907
    assert builtin("lenet5", options={"dropout": "0.5"}).operations[-2].options == {"rate": 0.5}
