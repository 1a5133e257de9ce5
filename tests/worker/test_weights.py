"""Initial weights come from the seed and the names alone."""

import numpy as np

from steplab_worker import networks
from steplab_worker.weights import initial_weights


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    graph = networks.build("lenet5")
    one, again, other = (initial_weights(graph, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one[key], again[key]) for key in one)
    assert not any(np.array_equal(one[key], other[key]) for key in one)


def test_weights_stay_within_one_over_root_fan_in_and_fill_it():
    kernel = initial_weights(networks.build("mlp"), 1)["dense1", "weight"]
    assert kernel.dtype == np.float32
    bound = 784**-0.5
    assert np.abs(kernel).max() <= bound * (1 + 1e-6)
    assert abs(kernel.mean()) < 0.01 * bound
    assert abs(kernel.std() - bound / 3**0.5) < 0.01 * bound


def test_norms_begin_as_the_identity_and_factors_where_they_say():
    weights = initial_weights(networks.build("resattnet3d18", input_shape=(1, 16, 16, 16)), 1)
    assert set(weights["conv1_norm", "weight"]) == set(weights["conv1_norm", "variance"]) == {1.0}
    assert set(weights["conv1_norm", "bias"]) == set(weights["conv1_norm", "mean"]) == {0.0}
    assert weights["s4b1_factor", "weight"] == np.float32(0.1)


def test_a_layer_more_does_not_change_the_others():
    two, three = (initial_weights(networks.build("mlp", {"hidden_layers": n}), 1) for n in (2, 3))
    assert np.array_equal(two["dense2", "weight"], three["dense2", "weight"])
