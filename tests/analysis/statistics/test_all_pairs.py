"""Nothing is called different that the noise may have made: false claims are counted over many studies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.pairs import Pairs
from steplab.analysis.sentences import sentences
from steplab.analysis.statistics.intervals import Interval
from steplab.analysis.study import Analysis, analyse
from steplab.analysis.summary import Group

SEEDS = 40


def study(
    rng: np.random.Generator, truth: np.ndarray, replicates: int, between: float = 0.1, workers: int = 1
) -> Analysis:
    """The analysis of a study whose configurations take `truth` seconds a step, on a noisy machine."""
    rows = []
    for threads, seconds in enumerate(truth, start=1):
        for replicate in range(replicates):
            median = seconds * np.exp(between * rng.standard_normal())
            rows.append(
                {
                    "trial": f"{threads:08x}{replicate:08x}",
                    "status": "ok",
                    "replicate": replicate,
                    "threads": threads,
                    "workers": workers,
                    "batch_size": 32,
                    "t_iter": median,
                    # What the iterations of one process say: far too sure of itself.
                    "t_iter_low": 0.99 * median,
                    "t_iter_high": 1.01 * median,
                    "spread": 0.05,
                    "drift": 0.0,
                    "seconds": 1.0,
                    "other_cpu_s": 0.0,
                }
            )
    return analyse(pd.DataFrame(rows), ["threads"])


@pytest.mark.parametrize(("configurations", "replicates"), [(4, 3), (12, 2), (12, 5), (24, 3)])
def test_equal_configurations_are_seldom_called_slower(configurations: int, replicates: int) -> None:
    rng = np.random.default_rng(11)
    equal = np.full(configurations, 0.01)
    false = [len(study(rng, equal, replicates).fastest) < configurations for _ in range(SEEDS)]
    assert np.mean(false) <= 0.10


def test_a_single_trial_is_told_from_nothing() -> None:
    rng = np.random.default_rng(12)
    found = study(rng, np.array([0.01, 0.011, 0.02]), 1)
    assert len(found.fastest) == 3
    assert "2 other configurations cannot be told from it" in str(sentences(found)[0])


def test_a_real_difference_is_seen() -> None:
    rng = np.random.default_rng(13)
    truth = np.array([0.01, 0.02, 0.01, 0.03, 0.01, 0.02])
    told = [{group.factors["threads"] for group in study(rng, truth, 5).fastest} for _ in range(20)]
    assert np.mean([one <= {1, 3, 5} for one in told]) >= 0.9


@pytest.mark.parametrize("replicates", [3, 5])
def test_an_effect_of_nothing_is_seldom_called_one(replicates: int) -> None:
    rng = np.random.default_rng(14)
    false = [any(effect.differs for effect in study(rng, np.full(2, 0.01), replicates).effects) for _ in range(SEEDS)]
    assert np.mean(false) <= 0.10


def test_no_sentence_claims_an_effect_that_may_be_noise() -> None:
    rng = np.random.default_rng(15)
    claims = 0
    for _ in range(SEEDS):
        text = " ".join(str(one) for one in sentences(study(rng, np.full(2, 0.01), 4)))
        claims += "strongest single effect" in text
    assert claims <= 0.10 * SEEDS


def equal_to_best(throughputs: list[float], interval: Interval) -> list[int]:
    """The positions of the fastest configuration and of those that cannot be told from it."""
    groups = [Group({}, interval, {}, None, throughput, throughput, None) for throughput in throughputs]
    return Pairs(groups, {}).equal_to_best()


def test_exact_times_are_told_apart_exactly() -> None:
    assert equal_to_best([10.0, 10.0, 9.9], Interval(1.0, 1.0, 1.0, 3, "t", error=0.0, freedom=2.0)) == [0, 1]


def test_small_differences_are_not_told_apart() -> None:
    sure = Interval(1.0, 0.99, 1.01, 5, "moderated", error=0.005, freedom=20.0)
    assert equal_to_best([100.0, 50.0, 99.0], sure) == [0, 2]


def test_one_configuration_is_not_compared() -> None:
    assert equal_to_best([1.0], Interval(1.0, 0.9, 1.1, 3, "t", error=0.05, freedom=2.0)) == [0]
