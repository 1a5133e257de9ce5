"""The step time of several ranks: stamps jitter, the period does not; independent rates add."""

from __future__ import annotations

import numpy as np
import pytest

from steplab.core.step_time import rank_weights, step_times

PERIOD = 0.01


def stamped(ranks: int, jitter: float, iterations: int = 400) -> np.ndarray:
    """Ranks × iterations of one common period, each stamp late by up to that share of it."""
    late = np.random.default_rng(ranks).uniform(0, jitter * PERIOD, (ranks, iterations + 1))
    return PERIOD + np.diff(late, axis=1)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_jitter_of_the_stamps_does_not_lengthen_the_step(ranks: int) -> None:
    # The median of 400 is known to about 0.6 % with one rank; the slowest of two would be 7 % above the period.
    assert np.median(step_times(stamped(ranks, 0.3), shared=True)) == pytest.approx(PERIOD, rel=0.02)


def test_a_rank_that_holds_up_all_others_is_in_the_common_period() -> None:
    compute, waiting = np.array([[1.0] * 9, [3.0] * 9]), np.array([[2.0] * 9, [0.0] * 9])
    assert step_times(compute + waiting, shared=True).tolist() == [3.0] * 9


@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_independent_rates_add_whatever_their_noise(sigma: float) -> None:
    times = np.array([[0.01], [0.02], [0.04]]) * np.random.default_rng(1).lognormal(0, sigma, (3, 101))
    rates = 1 / np.median(times, axis=1)
    assert 3 / np.median(step_times(times, shared=False)) == pytest.approx(rates.sum())


def test_weights_are_one_rank_s_share_of_all_steps() -> None:
    several = np.array([[[1.0] * 3, [3.0] * 3], [[2.0] * 3, [2.0] * 3]])
    assert rank_weights(several, shared=False).tolist() == [[0.75, 0.25], [0.5, 0.5]]
    assert rank_weights(several, shared=True).tolist() == [[0.5, 0.5]] * 2


def test_a_rank_without_any_time_does_not_divide_by_zero() -> None:
    assert step_times(np.array([[0.0, 0.0], [2.0, 2.0]]), shared=False).tolist() == [1.0, 1.0]
