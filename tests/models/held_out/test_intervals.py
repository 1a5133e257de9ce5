import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from steplab.core.errors import ModelError
from steplab.models.held_out.intervals import Conformal, calibrate, excess


@pytest.mark.parametrize("power", [0, 0.5, 1])
def test_the_scale_of_the_errors_is_found_and_covered(power):
    rng = np.random.default_rng(0)
    predicted = rng.uniform(1, 100, 4000)
    measured = predicted + 0.1 * predicted**power * rng.standard_normal(4000)
    made = calibrate(predicted[:2000], measured[:2000])
    assert made.power == power
    inside = np.abs(measured - predicted)[2000:] <= made.half_width(predicted[2000:], 0.9)
    assert 0.87 <= inside.mean() <= 0.93


def test_few_rows_give_a_wider_interval_than_their_largest_error():
    made = calibrate(np.array([1.0, 2.0, 3.0]), np.array([1.1, 2.1, 2.9]))
    assert made.half_width(np.array([2.0]), 0.9)[0] > 0.1


def test_a_level_outside_of_0_to_1_is_refused():
    made = calibrate(np.ones(5), np.arange(5.0))
    with pytest.raises(ModelError, match="between 0 and 1"):
        made.half_width(np.ones(1), 1.5)


def test_many_scores_are_stored_as_quantiles():
    rng = np.random.default_rng(0)
    made = calibrate(np.ones(5000), rng.standard_normal(5000))
    assert len(made.scores) == 501
    # The scores are |y − 1| of y from N(0, 1), whose 90 % quantile q solves Φ(1 + q) − Φ(1 − q) = 0.9. Of 5000 rows it
    # is known to ±0.03 (its standard error, sqrt(0.9 · 0.1 / 5000) over the density there): three of those.
    exact = brentq(lambda q: norm.cdf(1 + q) - norm.cdf(1 - q) - 0.9, 0.0, 9.0)
    error = math.sqrt(0.9 * 0.1 / 5000) / (norm.pdf(1 + exact) + norm.pdf(1 - exact))
    assert made.half_width(np.ones(1), 0.9)[0] == pytest.approx(exact, abs=3 * error)


@given(st.lists(st.floats(0.1, 1e3), min_size=3, max_size=40), st.floats(0.05, 0.9))
def test_a_higher_level_is_never_narrower(errors, level):
    made = calibrate(np.ones(len(errors)), 1 + np.array(errors))
    narrow, wide = made.half_width(np.ones(1), level), made.half_width(np.ones(1), min(level + 0.09, 0.99))
    assert wide[0] >= narrow[0] - 1e-12


def test_json_and_back():
    made = calibrate(np.ones(20), np.arange(20.0))
    assert Conformal.from_document(made.to_document()) == made


def test_excess_is_measured_in_widths_of_the_range():
    assert excess(np.array([0.0, 5.0, 20.0]), 0.0, 10.0).tolist() == [0, 0, 1]
    assert excess(np.array([4.0]), 2.0, 2.0)[0] > 0


def test_replicates_do_not_narrow_an_interval():
    rng = np.random.default_rng(0)
    errors = rng.standard_normal(6)
    once = calibrate(np.full(6, 9.0), 9 + errors)
    often = calibrate(np.full(60, 9.0), 9 + np.repeat(errors, 10), np.repeat(np.arange(6), 10))
    assert often.half_width(np.array([9.0]), 0.9) == pytest.approx(once.half_width(np.array([9.0]), 0.9))


def test_an_interval_of_positive_measurements_stops_at_zero():
    made = calibrate(np.ones(20), np.linspace(0.01, 5, 20))
    half = float(made.half_width(np.ones(1), 0.9)[0])
    low, high = made.bounds(np.array([1.0, -1.0, -100.0]), 0.9, np.ones(3))
    # A model that extrapolates to a negative time is wrong: no part of its interval may be negative.
    assert low.tolist() == [0.0, 0.0, 0.0]
    assert high.tolist() == pytest.approx([1.0 + half, half - 1.0, 0.0])
