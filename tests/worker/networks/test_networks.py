"""The networks are the published ones."""

import random

import pytest

from steplab_worker import networks
from steplab_worker.graph import GraphError


def by_kind(graph, *kinds):
    return [layer for layer in graph.layers if layer.kind in kinds]


def test_cnn9_layer_by_layer():
    layers = by_kind(networks.build("cnn9"), "conv", "flatten", "dense")
    assert [layer.parameters for layer in layers] == [448, 2320, 4640, 9248, 18496, 36928, 577, 0, 3250]
    assert layers[-2].shape == (324,)


def test_cnn9_with_shortcuts_needs_same_padding():
    options = {"padding": "same", "residual": True, "batch_norm": True}
    assert len(by_kind(networks.build("cnn9", options), "add")) == 3
    with pytest.raises(GraphError, match="needs padding 'same'"):
        networks.build("cnn9", {"residual": True})


def test_resattnet3d18_parameters_by_hand():
    def stage(c):  # four convolutions and the shortcut, from c to 2c channels, with their norms
        return 27 * (c * 2 * c + 3 * 4 * c * c) + 2 * c * c + 5 * 2 * 2 * c

    first = 27 * 64 + 2 * 64 + 4 * (27 * 64 * 64 + 2 * 64)
    attention = 2 * (2 * (512 * 64 + 64) + 512 * 512 + 512 + 1)
    by_hand = first + stage(64) + stage(128) + stage(256) + attention + 512 * 2 + 2
    assert networks.build("resattnet3d18").parameters == by_hand == 33797444


def test_resattnet3d18_has_attention_where_it_is_asked_for():
    for stages in range(5):
        graph = networks.build("resattnet3d18", {"attention": stages}, input_shape=(1, 32, 32, 32))
        assert len(by_kind(graph, "attention")) == 2 * stages


@pytest.mark.parametrize(("name", "depth"), [("resnet18", 18), ("resnet50", 50), ("resattnet3d18", 18)])
def test_residual_networks_are_as_deep_as_their_names(name, depth):
    graph = networks.build(name, {"attention": 0} if name == "resattnet3d18" else None)
    deep = [layer for layer in by_kind(graph, "conv", "dense") if not layer.name.endswith("shortcut")]
    assert len(deep) == depth


def test_efficientnet_drops_paths_more_often_the_deeper():
    rates = [layer.options["rate"] for layer in by_kind(networks.build("efficientnet_b0"), "drop_path")]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(0.2 * 14 / 16)


@pytest.mark.parametrize(("name", "extent"), [("resnet18", 4), ("resnet50", 4), ("efficientnet_b0", 2)])
def test_small_images_still_have_positions_at_the_end(name, extent):
    graph = networks.build(name, input_shape=(3, 32, 32), classes=10)
    assert by_kind(graph, "conv")[-1].shape[1:] == (extent, extent)


def test_alexnet_has_the_same_dense_layers_at_every_size():
    shapes = {networks.build("alexnet", input_shape=(3, n, n)).shape_of("flatten") for n in (32, 64, 224, 256)}
    assert shapes == {(9216,)}


def encoder(layers, width):
    """Parameters of so many blocks: qkv, projection, two dense layers, two norms."""
    return layers * (12 * width**2 + 13 * width)


def test_gpt2_parameters_by_hand():
    options = {"layers": 3, "width": 8, "heads": 2, "sequence": 16, "vocabulary": 50}
    assert networks.build("gpt2", options).parameters == 50 * 8 + 16 * 8 + encoder(3, 8) + 2 * 8
    assert networks.build("gpt2").parameters == 50257 * 768 + 1024 * 768 + encoder(12, 768) + 2 * 768 == 124439808


def test_bert_is_its_encoder_with_its_pooler():
    embeddings = (30522 + 512 + 2 + 2) * 768
    assert networks.build("bert_base").parameters == embeddings + encoder(12, 768) + 768 * 769 == 109482240


def test_vision_transformers_see_each_patch_and_a_class():
    graph = networks.build("vit_tiny", {"patch": 4}, input_shape=(3, 32, 32), classes=10)
    assert graph.shape_of("positions") == (65, 192)
    assert graph.output_shape == (10,)


@pytest.mark.parametrize("name", ["gpt2", "bert_base"])
def test_only_gpt2_is_causal_and_both_end_with_their_tokens(name):
    graph = networks.build(name, {"layers": 2})
    assert [layer.options["causal"] for layer in by_kind(graph, "self_attention")] == [name == "gpt2"] * 2
    assert graph.layers[-1].weight_keys == {"weight": ("tokens", "weight")}


@pytest.mark.parametrize(
    ("shape", "classes", "options", "message"),
    [
        ((1, 28, 28), 10, {}, "it takes tokens, samples of one dimension"),
        ((64,), 50, {}, "samples of 64 tokens are shorter than sequence = 1024"),
        ((64,), 256, {"sequence": 64, "vocabulary": 100}, "vocabulary = 100 is less than the 256 tokens of the data"),
        ((1024,), 50, {"heads": 5}, "not three times a width that 5 heads divide"),
    ],
)
def test_a_text_that_does_not_fit_is_said(shape, classes, options, message):
    with pytest.raises(GraphError, match=message):
        networks.build("gpt2", options, shape, classes)


def levels_of(option):
    """A few levels of an option, its ends among them."""
    if option.levels is not None:
        return list(option.levels)
    middle = [option.default, option.low + 3] if isinstance(option.default, int) else [option.default]
    return [option.low, *middle, min(option.high, 4 * max(option.low, 1) if option.low else option.high)]


def fits(name, options, side):
    net = networks.module(name)
    shape = (net.INPUT[0], *[side] * (len(net.INPUT) - 1))
    try:
        networks.build(name, options, shape)
    except GraphError:
        return False
    return True


@pytest.mark.parametrize("name", networks.names())
def test_whether_a_network_fits_its_data_depends_on_its_shapes_only(name):
    draw = random.Random(3)
    options = networks.module(name).OPTIONS
    seen = set()
    for _ in range(12):
        config = {key: draw.choice(levels_of(option)) for key, option in options.items() if option.shapes}
        side = draw.choice([4, 9, 16, 28])
        answers = set()
        for key, option in options.items():
            if not option.shapes:
                answers |= {fits(name, {**config, key: level}, side) for level in levels_of(option)}
        assert len(answers) == 1, (config, side)
        seen |= answers
    assert True in seen
