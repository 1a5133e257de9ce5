"""Drift is found when it is there, and seldom claimed when it is not, autocorrelated noise included."""

from __future__ import annotations

import numpy as np
import pytest

from steplab.core.steadiness import Array, correlation_inflation, drift, drifts, median_error, shift, trend


def correlated(rng: np.random.Generator, n: int, phi: float) -> Array:
    """Standard normal noise in which each value resembles the one before."""
    fresh = rng.standard_normal(n) * np.sqrt(1 - phi**2)
    values = np.empty(n)
    values[0] = rng.standard_normal()
    for i in range(1, n):
        values[i] = phi * values[i - 1] + fresh[i]
    return values


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6])
def test_noise_is_seldom_called_drift(phi: float) -> None:
    rng = np.random.default_rng(3)
    claimed = [drift(np.exp(0.15 * correlated(rng, 50, phi))).p < 0.01 for _ in range(200)]
    assert np.mean(claimed) <= 0.06


def test_a_slow_rise_is_found_with_its_size() -> None:
    rng = np.random.default_rng(4)
    found = trend((1 + 0.2 * np.linspace(-0.5, 0.5, 80)) * np.exp(0.04 * correlated(rng, 80, 0.2)))
    assert found.p < 0.01
    assert found.change == pytest.approx(0.2, abs=0.06)


def test_a_change_of_level_is_found_with_its_place() -> None:
    rng = np.random.default_rng(5)
    found = shift(np.where(np.arange(90) < 60, 1.0, 1.3) * np.exp(0.05 * correlated(rng, 90, 0.2)))
    assert found.p < 0.01
    assert found.change == pytest.approx(0.3, abs=0.05)
    assert found.at == pytest.approx(60, abs=5)  # the test leans to the middle


def test_a_long_series_keeps_the_place_of_its_change() -> None:
    rng = np.random.default_rng(6)
    found = shift(np.where(np.arange(5000) < 3000, 1.0, 1.2) * rng.lognormal(0, 0.1, 5000))
    assert found.at == pytest.approx(3000, abs=60)


@pytest.mark.parametrize("times", [np.ones(50), np.array([1.0, 2.0, 3.0]), np.zeros(20)])
def test_nothing_is_claimed_of_constant_or_few_times(times: Array) -> None:
    assert drift(times).p == 1.0


def test_the_error_of_a_median_covers_it_under_autocorrelation() -> None:
    rng = np.random.default_rng(7)
    series = [np.exp(0.1 * correlated(rng, 100, 0.5)) for _ in range(200)]
    hits = [abs(float(np.median(one)) - 1.0) <= median_error(one) * float(np.median(one)) for one in series]
    assert np.mean(hits) >= 0.9


def test_independent_values_are_hardly_widened() -> None:
    rng = np.random.default_rng(8)
    assert np.median([correlation_inflation(rng.standard_normal(100)) for _ in range(50)]) < 1.15


@pytest.mark.parametrize("length", [1, 7, 8, 50, 240, 241, 700])
def test_many_series_drift_as_each_alone(length: int) -> None:
    rng = np.random.default_rng(length)
    calm = rng.lognormal(0, 0.1, (40, length))
    rising = calm * np.linspace(1.0, 1.3, length)
    moved = calm * np.where(np.arange(length) < length // 3, 1.0, 1.4)
    rounded, still, zero = calm.round(1), np.ones((2, length)), np.zeros((2, length))
    table = np.concatenate([calm, rising, moved, rounded, still, zero])
    assert drifts(table) == [drift(one) for one in table]
