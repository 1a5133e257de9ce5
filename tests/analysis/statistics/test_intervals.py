"""Intervals of medians: they cover the truth about as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from steplab.analysis.statistics.intervals import median_intervals


def coverage(configurations: int, replicates: int, repetitions: int = 100) -> float:
    rng = np.random.default_rng(7)
    hits = []
    for _ in range(repetitions):
        truth = rng.uniform(0.01, 1.0, configurations)
        groups = [t * rng.lognormal(0, 0.08, replicates) for t in truth]
        intervals = median_intervals(groups, [(0.0, 0.0)] * configurations)
        hits += [interval.low <= t <= interval.high for interval, t in zip(intervals, truth, strict=True)]
    return float(np.mean(hits))


@pytest.mark.parametrize("replicates", [2, 3, 5, 9])
def test_pooled_intervals_cover_95_per_cent(replicates: int) -> None:
    assert 0.92 <= coverage(12, replicates) <= 0.98


def test_a_single_configuration_gets_a_wide_honest_interval() -> None:
    assert coverage(1, 3, repetitions=600) >= 0.92


def test_an_unruly_configuration_does_not_hide_in_the_pool() -> None:
    rng = np.random.default_rng(1)
    calm = [rng.lognormal(0, 0.01, 3) for _ in range(20)]
    wild = np.array([0.5, 1.0, 2.0])
    *rest, last = median_intervals([*calm, wild], [(0.0, 0.0)] * 21)
    assert last.method == "t"
    assert last.high / last.low > 4
    assert {interval.method for interval in rest} == {"moderated", "t"}


def test_one_trial_keeps_the_interval_of_its_iterations() -> None:
    (only,) = median_intervals([np.array([2.0])], [(1.5, 2.5)])
    assert (only.median, only.low, only.high, only.method) == (pytest.approx(2.0), 1.5, 2.5, "within-trial")


def test_intervals_do_not_depend_on_the_unit() -> None:
    groups = [np.array([1.0, 1.1, 1.2]), np.array([3.0, 2.9, 3.3])] * 4
    seconds = median_intervals(groups, [(0.0, 0.0)] * 8)
    micros = median_intervals([group * 1e6 for group in groups], [(0.0, 0.0)] * 8)
    assert [i.low * 1e6 for i in seconds] == pytest.approx([i.low for i in micros])
