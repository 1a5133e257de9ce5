"""The solver of the generic model: its linear part, and the descent over powers."""

import itertools

import numpy as np
import pandas as pd
import pytest

from steplab.models.generic import Generic
from steplab.models.solvers.varpro import linear_part


def columns(rows=60):
    rng = np.random.default_rng(4)
    basis = rng.uniform(0.5, 2.0, (rows, 3))
    return basis, basis @ [1.0, 2.0, 0.5] + 0.01 * rng.standard_normal(rows)


@pytest.mark.parametrize("near", [None, np.ones(3)])
def test_a_price_on_coefficients_is_that_of_ridge_regression(near):
    basis, y = columns()
    ridge = np.array([30.0, 0.0, 5.0])
    expected = np.linalg.solve(basis.T @ basis + np.diag(ridge), basis.T @ y)
    solved = linear_part(y, np.asfortranarray(basis), np.ones(len(y)), ridge, near)
    # The solver's own ridge is 1e-11 of the diagonal.
    assert solved == pytest.approx(expected, rel=1e-8)


def test_a_wrong_guess_of_which_coefficients_are_zero_does_no_harm():
    basis, y = columns()
    cold, warm = (
        linear_part(y - 3 * basis[:, 2], np.asfortranarray(basis), np.ones(len(y)), np.zeros(3), near)
        for near in (None, np.array([0.0, 0.0, 1.0]))
    )
    assert warm == pytest.approx(cold, abs=1e-9) and cold[2] == 0


def test_a_penalty_on_coefficients_alone_lowers_them():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"filters": rng.choice([8.0, 16.0, 32.0, 64.0], 80), "batch_size": rng.choice([16.0, 32.0, 64.0], 80)}
    )
    y = pd.Series(0.02 * X["filters"] * X["batch_size"] ** 0.5 * np.exp(0.05 * rng.standard_normal(80)), name="t")
    free, held = (
        Generic(intrinsic="filters", extrinsic="batch_size", penalty=penalty).fit(X, y).predict(X).mean()
        for penalty in ("none", "l2:coef=2,power=0")
    )
    assert held < 0.9 * free


@pytest.mark.parametrize("loss", ["absolute", "relative"])
def test_nothing_near_the_fitted_powers_costs_less(loss):
    rng = np.random.default_rng(2)
    X = pd.DataFrame(
        {"filters": rng.choice([8.0, 16.0, 32.0, 64.0], 120), "batch_size": rng.choice([16.0, 32.0, 64.0], 120)}
    )
    y = pd.Series((0.02 * X["filters"] ** 1.3 + 1) * X["batch_size"] ** 0.7 * np.exp(0.05 * rng.standard_normal(120)))
    model = Generic(intrinsic="filters", extrinsic="batch_size", loss=loss, form="source").fit(X, y)
    unit = y if loss == "relative" else 1.0

    def cost(power, scale):
        """The least error with these powers, over a grid around the fitted coefficients."""
        expression = model.expression_
        terms = np.column_stack([X["filters"] ** power * X["batch_size"] ** scale, X["batch_size"] ** scale])
        rest, near = y - expression.constant, [expression.coef["filters"], expression.base]
        factors = itertools.product((0.98, 0.99, 1, 1.01, 1.02), (0.96, 0.98, 1, 1.02, 1.04))
        return min(np.mean(np.abs(rest - terms @ np.multiply(near, factor)) / unit) for factor in factors)

    power, scale = model.expression_.power["filters"], model.expression_.scale["batch_size"]
    least = cost(power, scale)
    # The corner of the absolute value is rounded, which costs up to 0.1 % of the mean error.
    for step in ((0.02, 0), (-0.02, 0), (0, 0.02), (0, -0.02)):
        assert cost(power + step[0], scale + step[1]) > 0.999 * least


def test_copies_that_only_predict_judge_no_parameters():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"filters": rng.choice([8.0, 16.0, 32.0], 40), "batch_size": rng.choice([16.0, 32.0, 64.0], 40)})
    y = pd.Series(0.02 * X["filters"] * X["batch_size"] ** 0.5, name="t")
    model = Generic(intrinsic="filters", extrinsic="batch_size").fit(X, y)
    assert "parameters_" not in model.__dict__ and "interval_" not in model.__dict__
    low, high = model.predict_interval(X)
    assert (low <= y).all() and (y <= high).all()
    assert {parameter.symbol for parameter in model.parameters()} >= {"a", "p", "q"}
