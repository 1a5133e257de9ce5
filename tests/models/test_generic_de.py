import numpy as np
import pytest
from scipy.optimize import Bounds, differential_evolution

from steplab.models.columns.roles import Roles, canonical_order, features
from steplab.models.generic_de import GenericDE, in_table_units, objective_of, rounded
from steplab.models.solvers.prepare import prepare
from steplab.models.solvers.varpro import Penalty, PowersPoint


def test_reports_mean_and_standard_deviation_over_seeds(make_table):
    X, y = make_table(rows=60)
    model = GenericDE(extrinsic=("batch_size", "workers"), seeds=3, maxiter=40, popsize=5).fit(X, y)
    # The same evolutions, one by one, by SciPy alone; in another order of rows the last bits would lead elsewhere.
    roles = Roles((), (), ("batch_size", "workers"))
    frame = features(X, roles)
    order = canonical_order(frame, y.to_numpy())
    rows, times = frame.iloc[order].reset_index(drop=True), y.to_numpy()[order]
    problem = rounded(prepare(rows, times, roles, {}, "absolute", Penalty())).problem
    low, high, cost = objective_of(problem)
    options = {"maxiter": 40, "popsize": 5}
    evolved = [differential_evolution(cost, Bounds(low, high), rng=seed, **options).x for seed in range(3)]
    for at, name in enumerate(roles.extrinsic):  # the powers come first, in the order of their factors
        q = next(p for p in model.parameters() if p.name == name)
        powers = [x[at] for x in evolved]
        # The same numbers in another order of computing.
        assert (q.value, q.std) == pytest.approx((np.mean(powers), np.std(powers, ddof=1)), rel=1e-9)
        assert q.std > 0
        assert (q.low, q.high) == pytest.approx((q.value - 1.96 * q.std, q.value + 1.96 * q.std))


def test_the_cost_is_the_sources_mean_absolute_error_plus_penalty(make_table):
    X, y = make_table(rows=40)
    roles = Roles(("filters",), (), ("workers",))
    problem = prepare(features(X, roles), y.to_numpy(), roles, {}, "absolute", Penalty("l2", 0.5, 2.0)).problem
    _, _, cost = objective_of(problem)
    x = np.array([0.5, -1.0, 2.0, 0.3])
    predicted = problem.basis(x[:2]) @ x[2:]
    expected = np.mean(np.abs(problem.y - predicted)) + 0.5 * (4 + 0.09) + 2 * (0.25 + 1)
    assert cost(x) == pytest.approx(expected)


def test_bounds_are_the_sources(make_table):
    X, y = make_table(rows=40)
    roles = Roles(("filters",), ("padding",), ("workers",))
    levels = {"padding": ("same", "valid")}
    low, high, _ = objective_of(prepare(features(X, roles), y.to_numpy(), roles, levels, "absolute", Penalty()).problem)
    assert low.tolist() == [-5, -5, 0, 0, 0, 0]
    assert high.tolist() == [5, 5, 1000, 1000, 1000, 1000]


def test_in_table_units_nothing_is_scaled_and_the_answer_reads_the_same(make_table):
    X, y = make_table(rows=40)
    roles = Roles(("filters",), (), ("workers",))
    frame = features(X, roles)
    raw = in_table_units(prepare(frame, y.to_numpy(), roles, {}, "absolute", Penalty()), y.to_numpy())
    theta, coef = np.array([0.5, -1.0]), np.array([2.0, 0.3])
    expected = 2 * X["filters"] ** 0.5 / X["workers"] + 0.3
    np.testing.assert_allclose(raw.problem.basis(theta) @ coef, expected)
    point = PowersPoint(theta, coef, raw.problem.basis(theta), y.to_numpy(), 0.0)
    np.testing.assert_allclose(raw.expression(point).predict(frame), expected)
