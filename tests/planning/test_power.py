"""Which differences a design sees: against simulated studies, and what is said of it."""

import numpy as np
import pytest
from scipy import stats

from steplab.planning.power import design_power, least_difference, replicates_needed


def test_four_of_five_studies_see_the_least_difference():
    rng, n, noise = np.random.default_rng(2), 8, 0.15
    shift = np.log1p(least_difference(noise, n, n, 2 * (n - 1)))
    a = noise * rng.standard_normal((4000, n))
    b = shift + noise * rng.standard_normal((4000, n))
    seen = (stats.ttest_ind(a, b, axis=1).pvalue < 0.05).mean()
    # The formula adds two quantiles of the central t where the noncentral one would be exact: a few per cent off.
    assert seen == pytest.approx(0.8, abs=0.04)


def test_more_replicates_see_less_and_levels_less_than_pairs():
    few, many = (design_power(0.1, "a guess", 12, r, {"workers": 2, "batch_size": 3}) for r in (2, 8))
    assert many.pair < few.pair
    assert few.effects["workers"] < few.effects["batch_size"] < few.pair


def test_one_replicate_tells_nothing_of_two_configurations():
    single = design_power(0.1, "a guess", 12, 1, {"workers": 2})
    assert single.pair is None and single.effects["workers"] > 0
    assert "two configurations" not in single.sentence and "workers" in single.sentence


def test_a_wish_says_how_many_replicates_it_takes():
    wished = design_power(0.15, "a guess", 2, 1, {}, 0.05)
    assert wished.needed == replicates_needed(0.15, 0.05) > 100 and "150 replicates" in wished.sentence


def test_a_design_that_sees_nothing_says_so():
    power = design_power(0.1, "earlier studies", configurations=2, replicates=1, levels={"workers": 2})
    assert power.sentence.startswith("this design can tell no difference from noise, for lack of replicates (noise")
