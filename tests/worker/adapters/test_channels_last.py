import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab_worker import networks
from steplab_worker.adapters import _channels_last as last
from steplab_worker.graph import Builder
from steplab_worker.weights import initial_weights


def test_examples():
    assert doctest.testmod(last).failed == 0


@pytest.mark.parametrize("name", ["lenet5", "resnet18"])
def test_arrays_come_back_as_they_went(name):
    graph = networks.build(name)
    weights = initial_weights(graph, 1)
    keys = last.weight_keys(graph) + last.buffer_keys(graph)
    back = last.all_outward(graph, last.all_inward(graph, keys, weights))
    assert all(np.array_equal(back[key], weights[key]) for key in weights)


def test_kernels_have_window_channels_filters():
    graph = networks.build("lenet5")
    made = last.all_inward(graph, last.weight_keys(graph), initial_weights(graph, 1))
    assert made["conv2", "weight"].shape == (5, 5, 6, 16)
    assert made["dense3", "weight"].shape == (400, 120)


@given(st.integers(1, 12), st.integers(1, 12))
def test_adaptive_pooling_keeps_a_constant(extent, outputs):
    assert np.allclose(np.ones(extent, np.float32) @ last.bin_matrix(extent, outputs), 1)


@given(st.integers(3, 9), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2))
def test_windows_count_true_elements_only(extent, kernel, stride, before, after):
    before, after = min(before, kernel - 1), min(after, kernel - 1)
    padded = np.pad(np.ones(extent), (before, after))
    counted = [padded[i : i + kernel].sum() for i in range(0, len(padded) - kernel + 1, stride)]
    assert last.window_counts((extent,), (kernel,), (stride,), ((before, after),))[:, 0].tolist() == counted


def test_a_flatten_that_only_dense_layers_read_keeps_the_elements_as_they_lie():
    graph = networks.build("lenet5")
    assert last.as_they_lie(graph) == {"flatten": (16, 5, 5), "dense3": (16, 5, 5)}
    samples = np.random.default_rng(1).standard_normal((3, 16, 5, 5))
    weight = initial_weights(graph, 1)["dense3", "weight"]
    held = last.all_inward(graph, [("dense3", "weight")], {("dense3", "weight"): weight})["dense3", "weight"]
    lying = samples.transpose(last.last_axes(4)).reshape(3, -1)
    assert np.allclose(lying @ held, samples.reshape(3, -1) @ weight.T)


def test_a_flatten_that_others_read_keeps_the_order_of_the_graph():
    net = Builder("read by others", (2, 4, 4))
    net.conv("conv", 3, 3, padding="same")
    flat = net.add("flatten", "flatten")
    net.dense("dense", 48)
    net.add("add", "add", [flat, "dense"])
    assert last.as_they_lie(net.graph()) == {}


def test_a_flatten_that_is_the_output_keeps_the_order_of_the_graph():
    net = Builder("output", (2, 4, 4))
    net.conv("conv", 3, 3, padding="same")
    net.add("flatten", "flatten")
    net.activation("relu", "relu")
    assert last.as_they_lie(net.graph()) == {}
