"""Shapes of the kinds, and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab_worker.graph import Builder, GraphError
from steplab_worker.layers import KINDS, adaptive_bins, same_pads, size


@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 5), st.integers(0, 4))
def test_a_window_visits_every_place_that_it_fits(extent, kernel, stride, pad):
    padded = extent + 2 * pad
    places = [start for start in range(0, padded, stride) if start + kernel <= padded]
    try:
        made = KINDS["conv"]([(1, extent)], filters=1, kernel=kernel, stride=stride, padding=pad)
    except GraphError:
        assert not places
    else:
        assert made.shape == (1, len(places))


@given(st.integers(1, 300), st.integers(1, 12))
def test_same_padding_keeps_the_extent(extent, kernel):
    made = KINDS["conv"]([(2, extent)], filters=3, kernel=kernel, padding="same")
    assert made.shape == (3, extent)
    assert made.options["padding"] == same_pads((kernel,))


@given(st.integers(1, 60), st.integers(1, 60))
def test_adaptive_windows_cover_the_input_without_gaps(extent, outputs):
    bins = adaptive_bins(extent, outputs)
    assert len(bins) == outputs
    assert all(start < stop for start, stop in bins)
    assert {i for start, stop in bins for i in range(start, stop)} == set(range(extent))


def test_groups_shrink_the_kernel():
    assert KINDS["conv"]([(8, 5, 5)], filters=16, kernel=3, groups=4).weights["weight"] == (16, 2, 3, 3)


def test_a_gate_scales_channels_only():
    assert KINDS["multiply"]([(8, 5, 5), (8,)]).shape == (8, 5, 5)
    with pytest.raises(GraphError, match="cannot multiply"):
        KINDS["multiply"]([(8, 5, 5), (5,)])


@pytest.mark.parametrize(
    ("kind", "shapes", "options", "message"),
    [
        ("conv", [(3, 8, 8)], {"filters": 4, "kernel": 9}, "a window of 9x9 does not fit an input of 8x8"),
        ("conv", [(3, 8, 8)], {"filters": 4, "kernel": 3, "groups": 2}, "2 groups do not divide"),
        ("conv", [(3, 8, 8)], {"filters": 0, "kernel": 3}, "filters must be at least 1"),
        ("conv", [(3, 8, 8)], {"filters": 1, "kernel": 3, "padding": "some"}, "unknown padding 'some'"),
        ("conv", [(3, 8, 8)], {"filters": 1, "kernel": (3, 3, 3)}, "no window for 2 dimensions"),
        ("conv", [(3,)], {"filters": 4, "kernel": 3}, "needs channels and 1 to 3 spatial dimensions"),
        ("conv", [(3, 8), (3, 8)], {"filters": 4, "kernel": 3}, "takes 1 inputs, not 2"),
        ("max_pool", [(3, 8)], {"kernel": 2, "padding": 2}, "windows without any input"),
        ("activation", [(3,)], {"function": "swish"}, "unknown activation"),
        ("dropout", [(3,)], {"rate": 1.0}, "a rate must be"),
        ("add", [(3,), (4,)], {}, "cannot add"),
        ("concat", [(3, 4), (3, 5)], {}, "cannot concatenate"),
        ("attention", [(3, 4), (4, 4), (4, 4)], {}, "do not fit"),
        ("attention", [(4, 4), (4, 4), (4, 4)], {"heads": 3}, "3 heads do not divide"),
        ("reshape", [(3, 4)], {"shape": (5, 2)}, "cannot reshape"),
        ("embedding", [(3, 4)], {"tokens": 9, "width": 2}, "needs tokens along one dimension"),
        ("position_embedding", [(3, 4)], {"rows": 4}, "4 rows for 3 positions"),
        ("class_token", [(3, 4, 5)], {}, "needs a sequence"),
        ("part", [(3, 4)], {"start": 2, "stop": 4}, "entries 2 to 4 are not within the 3"),
        ("self_attention", [(3, 12)], {"heads": 3}, "12 features are not three times a width that 3 heads divide"),
        ("dense", [(3,)], {"unit": 2}, "unit"),
        ("nothing", [(3,)], {}, "unknown kind 'nothing'"),
    ],
)
def test_what_does_not_fit_names_the_layer(kind, shapes, options, message):
    net = Builder("test", shapes[0])
    names = []
    for i, shape in enumerate(shapes):
        net.last = "input"
        names.append(net.add("flatten", f"x{i}"))
        object.__setattr__(net.layers[f"x{i}"], "shape", shape)
    with pytest.raises(GraphError, match=message) as caught:
        net.add(kind, "here", names, **options)
    assert str(caught.value).startswith("here: ")


def test_names_are_used_once():
    net = Builder("test", (3,))
    net.dense("one", 2)
    with pytest.raises(GraphError, match="two layers are called 'one'"):
        net.dense("one", 2)


def test_without_dropout_every_rate_is_zero_and_nothing_else_changes():
    from steplab_worker import networks

    graph = networks.build("efficientnet_b0")
    quiet = graph.without_dropout()
    assert {layer.options["rate"] for layer in quiet.layers if "rate" in layer.options} == {0.0}
    assert [layer.shape for layer in quiet.layers] == [layer.shape for layer in graph.layers]
    assert max(layer.options.get("rate", 0) for layer in graph.layers) == 0.2


def test_size_of_a_scalar_is_one():
    assert size(()) == 1


def test_a_layer_is_tied_to_a_weight_that_fits_it():
    net = Builder("test", (5,))
    net.add("embedding", "tokens", tokens=9, width=4)
    net.tied_dense("logits", to="tokens")
    graph = net.graph()
    assert graph.output_shape == (5, 9) and graph.parameters == 36
    assert graph.layers[-1].weight_keys == {"weight": ("tokens", "weight")}
    for other in ("logits", "nothing", "tokens"):
        with pytest.raises(GraphError, match=f"wrong: {other!r} has no weight that"):
            net.tied_dense("wrong", to=other)
