"""Intervals of coefficients hold where replicates are few clusters."""

import numpy as np
import pytest
from scipy.special import stdtrit
from statsmodels.regression.linear_model import OLS

from steplab.models.solvers.least_squares import least_squares


def test_without_clusters_they_agree_with_statsmodels():
    rng = np.random.default_rng(0)
    matrix, y = np.column_stack([np.ones(30), rng.uniform(0, 1e6, (30, 2))]), rng.standard_normal(30)
    values, half, told = least_squares(matrix, y, None)
    expected = OLS(y, matrix).fit()
    low, high = expected.conf_int(0.05).T
    assert told
    np.testing.assert_allclose(values, expected.params)
    np.testing.assert_allclose(half, (high - low) / 2)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_with_clusters_errors_are_those_of_leaving_each_out(size):
    rng, clusters = np.random.default_rng(1), 6
    groups = np.repeat(np.arange(clusters), size)
    matrix, y = (
        np.column_stack([np.ones(len(groups)), rng.standard_normal((len(groups), 2))]),
        rng.standard_normal(len(groups)),
    )
    values, half, _ = least_squares(matrix, y, groups)
    without = [np.linalg.lstsq(matrix[groups != g], y[groups != g])[0] for g in range(clusters)]
    errors = np.sqrt(((np.array(without) - values) ** 2).sum(axis=0) * (clusters - 1) / clusters)
    np.testing.assert_allclose(half, stdtrit(clusters - 3, 0.975) * errors)


@pytest.mark.parametrize("shared", [0.0, 0.05])
def test_few_clusters_do_not_make_intervals_too_narrow(shared):
    rng, studies, workers = np.random.default_rng(0), 300, np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 3)
    matrix = np.column_stack([np.ones(len(workers)), workers])
    held = []
    for _ in range(studies):
        own = shared * np.repeat(rng.standard_normal(5), 3) + 0.05 * rng.standard_normal(len(workers))
        values, half, _ = least_squares(matrix, matrix @ [1.0, 0.2] + own, workers)
        held.append(np.abs(values - [1.0, 0.2]) <= half)
    assert np.mean(held, axis=0).min() >= 0.92


@pytest.mark.parametrize("rows", [1, 3])
def test_what_a_single_cluster_tells_has_no_error(rows):
    """A level that one configuration alone has, measured once or several times; the other coefficients keep theirs."""
    rng, sizes = np.random.default_rng(2), np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    x = np.r_[np.repeat(sizes, 2), np.full(rows, 4.0)]
    level = np.r_[np.zeros(14), np.ones(rows)]
    groups = np.r_[np.repeat(np.arange(7), 2), np.full(rows, 7)]
    matrix = np.column_stack([np.ones(len(x)), x, level])
    _, half, told = least_squares(matrix, 1.0 + x + rng.standard_normal(len(x)), groups)
    assert told and np.isnan(half).tolist() == [False, False, True]
    assert half[0] < 5 and half[1] < 0.2  # the noise is 1 and x goes to 64
