import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab.models.held_out.calibration import calibrated, interval_from
from steplab.models.held_out.intervals import Conformal
from steplab.models.held_out.ratio_intervals import RatioConformal, calibrate_ratios


@pytest.mark.parametrize("power", [0, 1])
def test_errors_that_are_shares_or_fixed_parts_of_a_time_are_covered_at_both_ends(power):
    rng = np.random.default_rng(0)
    predicted = np.exp(rng.uniform(0, 3, 4000))
    measured = predicted * np.exp(0.3 * predicted**-power * rng.standard_normal(4000))
    made = calibrate_ratios(predicted[:2000], measured[:2000])
    assert made.power == power
    low, high = made.bounds(predicted[2000:], 0.9, np.ones(2000))
    held = (low <= measured[2000:]) & (measured[2000:] <= high)
    small = predicted[2000:] < np.median(predicted)
    # 90 % of 1000 rows are known to ±1 % (a standard error): three of those on each side of the median.
    assert 0.87 <= held[small].mean() <= 0.93 and 0.87 <= held[~small].mean() <= 0.93


def test_no_interval_of_a_time_touches_zero_however_wide():
    made = calibrate_ratios(np.ones(20), np.geomspace(0.01, 100, 20))
    low, high = made.bounds(np.array([1.0, 1e-9, -5.0]), 0.99, np.array([1.0, 50.0, 1e6]))
    assert np.all(low > 0) and np.all(np.isfinite(high))
    assert low[1] <= 1e-9 <= high[1]


@given(st.floats(1e-6, 1e6))
def test_the_unit_of_the_target_does_not_matter(unit):
    rng = np.random.default_rng(0)
    measured = rng.lognormal(0, 1, 30)
    made, scaled = calibrate_ratios(np.ones(30), measured), calibrate_ratios(np.full(30, unit), unit * measured)
    assert scaled.quantile(0.9) == pytest.approx(made.quantile(0.9), rel=1e-9)


def test_where_the_spread_is_unknown_there_is_no_interval():
    made = calibrate_ratios(np.ones(20), np.linspace(0.9, 1.1, 20))
    low, high = made.bounds(np.ones(2), 0.9, np.array([1.0, np.nan]))
    assert np.isfinite(low[0]) and np.isnan(low[1]) and np.isnan(high[1])


def test_targets_that_may_be_negative_keep_differences():
    assert isinstance(calibrated(np.ones(9), np.arange(9.0)), Conformal)
    assert isinstance(calibrated(np.ones(9), 1 + np.arange(9.0)), RatioConformal)


def test_json_and_back_of_both_kinds():
    for measured in (np.arange(20.0), 1 + np.arange(20.0)):
        made = calibrated(np.ones(20), measured)
        assert interval_from(made.to_document()) == made


@pytest.mark.parametrize("damage", [{"scores": [2.0, 1.0]}, {"smallest": 0.0}, {"typical": float("nan")}, {"rows": 0}])
def test_a_damaged_document_is_refused(damage):
    document = calibrate_ratios(np.ones(20), 1 + np.arange(20.0)).to_document()
    with pytest.raises(ValueError, match="damaged"):
        interval_from({**document, **damage})
