"""Warm-up and stopping: decided on times alone."""

from __future__ import annotations

import numpy as np
import pytest

from steplab.core.measurement import Measure
from steplab.core.warm_up import BLOCK as WARMUP_BLOCK
from steplab.core.warm_up import CAP as WARMUP_CAP
from steplab.kinds.blocks import OVERLAP_ITERATIONS, PHASED_WARMUP, BlockDirector, is_precise


def directed(director: BlockDirector, cost: list[float] | None = None, mode: str = "native") -> tuple[list[int], int]:
    """Play a trial of one rank: the blocks asked for (warm-up negative) and the measured iterations."""
    asked, done, block = [], 0, [[]]
    while True:
        iterations, warmup, last = director.next(mode, block)
        if iterations:
            asked.append(-iterations if warmup else iterations)
        if last or not iterations:
            return asked, sum(n for n in asked if n > 0)
        times = [(cost[done + i] if cost and done + i < len(cost) else 1.0) for i in range(iterations)]
        done += iterations
        block = [times]


def test_a_steady_trial_warms_up_for_two_blocks() -> None:
    asked, measured = directed(BlockDirector(Measure(iterations=30), 1))
    assert asked == [-WARMUP_BLOCK, -WARMUP_BLOCK, 30]
    assert measured == 30


def test_a_falling_trial_warms_up_longer() -> None:
    asked, _ = directed(BlockDirector(Measure(iterations=30), 1), [10 * 0.8**i for i in range(15)])
    assert sum(n < 0 for n in asked) > 2


def test_a_decline_too_slow_for_two_blocks_is_seen() -> None:
    rng = np.random.default_rng(0)
    slow = (1 + 0.5 * np.exp(-np.arange(200) / 20)) * rng.lognormal(0, 0.01, 200)
    asked, _ = directed(BlockDirector(Measure(iterations=30), 1), slow.tolist())
    assert -sum(n for n in asked if n < 0) >= 30


def test_noise_alone_does_not_prolong_the_warm_up() -> None:
    rng = np.random.default_rng(0)
    lengths = []
    for _ in range(50):
        asked, _ = directed(BlockDirector(Measure(iterations=30), 1), rng.lognormal(0, 0.15, 200).tolist())
        lengths.append(-sum(n for n in asked if n < 0))
    assert np.mean(lengths) < 18


def test_the_cap_of_the_measured_iterations_is_overridable() -> None:
    rng = np.random.default_rng(0)
    noisy = rng.lognormal(0, 1, 9000).tolist()
    for cap in (40, 400):
        measure = Measure(iterations=20, warmup=0, precision=1e-4, max_iterations=cap)
        assert directed(BlockDirector(measure, 1), noisy)[1] == cap


def test_warm_up_has_a_cap() -> None:
    asked, _ = directed(BlockDirector(Measure(iterations=3), 1), [0.7**i for i in range(1000)])
    assert -sum(n for n in asked if n < 0) == WARMUP_CAP


def test_a_number_of_warm_up_iterations_is_obeyed() -> None:
    assert directed(BlockDirector(Measure(iterations=3, warmup=7), 1))[0] == [-7, 3]
    assert directed(BlockDirector(Measure(iterations=3, warmup=0), 1))[0] == [3]


def test_blocks_are_whole_accumulations() -> None:
    asked, _ = directed(BlockDirector(Measure(iterations=10, warmup=3), 4))
    assert asked == [-4, 12]


def test_the_phased_mode_needs_little_warm_up() -> None:
    assert directed(BlockDirector(Measure(iterations=10), 1), mode="phased")[0] == [-PHASED_WARMUP, 10]


def test_iterations_go_on_until_the_median_is_precise() -> None:
    rng = np.random.default_rng(0)
    noisy = list(rng.lognormal(0, 0.5, 5000))
    _, rough = directed(BlockDirector(Measure(iterations=20, warmup=0, precision=0.2), 1), noisy)
    _, fine = directed(BlockDirector(Measure(iterations=20, warmup=0, precision=0.05), 1), noisy)
    assert 20 <= rough < fine <= 1000


def test_precision_has_a_cap() -> None:
    rng = np.random.default_rng(0)
    measure = Measure(iterations=20, warmup=0, precision=0.001, max_iterations=100)
    assert directed(BlockDirector(measure, 1), list(rng.lognormal(0, 1, 5000)))[1] == 100


def test_precision_is_a_share_of_the_median() -> None:
    times = np.random.default_rng(0).permutation(np.linspace(0.9, 1.1, 101))
    assert is_precise(times, 0.05)
    assert not is_precise(times, 0.01)


def test_iterations_that_resemble_each_other_count_for_fewer() -> None:
    mixed = np.random.default_rng(0).permutation(np.linspace(0.9, 1.1, 101))
    assert is_precise(mixed, 0.03)
    assert not is_precise(np.sort(mixed), 0.03)


def test_overlap_is_measured_in_one_short_block_whatever_precision_is_asked() -> None:
    asked, _ = directed(BlockDirector(Measure(iterations=500, precision=0.001), 1), mode="overlap")
    assert asked == [-PHASED_WARMUP, OVERLAP_ITERATIONS]
    asked, _ = directed(BlockDirector(Measure(iterations=6), 4), mode="overlap")
    assert asked == [-4, 8]


def test_jitter_of_the_stamps_does_not_change_what_the_director_sees() -> None:
    late = np.random.default_rng(3).uniform(0, 0.3, (8, 201))
    director = BlockDirector(Measure(iterations=200, warmup=0), 1)
    director.next("native", [[]])
    director.next("native", (1.0 + np.diff(late, axis=1)).tolist())
    assert float(np.median(director._cycles())) == pytest.approx(1.0, rel=0.02)


def test_the_director_adds_the_rates_of_independent_ranks() -> None:
    director = BlockDirector(Measure(iterations=4, warmup=0), 1, shared=False)
    director.next("native", [[], []])
    director.next("native", [[1.0] * 4, [4.0] * 4])
    assert director._cycles().tolist() == pytest.approx([1.6] * 4)
