"""Scaling: the law's speed-up, imbalance and serial share come back, exactly or, with noise, inside their intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit

from steplab.analysis.scaling import laws as laws
from steplab.analysis.scaling.series import Scaling, scaling
from steplab.analysis.statistics.differences import critical

WORKERS = (1, 2, 4, 8)
REPETITIONS = 100
NEEDED = 90
# Amdahl exactly: fixed compute is serial, compute per sample is shared, and nothing is exchanged to speak of.
AMDAHL = {"compute_s": 0.02, "sample_s": 0.08 / 64, "update_s": 0.0, "latency_s": 0.0, "bandwidth_bytes_s": 1e30}
SERIAL = 0.2


def only(trials: pd.DataFrame) -> Scaling:
    (series,) = scaling(trials, trials.attrs["factors"])
    return series


def strong(**own: Any) -> list[dict[str, Any]]:
    return [{"global_batch_size": 64, "workers": n, **AMDAHL, **own} for n in WORKERS]


def weak(workers: Sequence[int] = WORKERS, **own: Any) -> list[dict[str, Any]]:
    return [{"batch_size": 16, "workers": n, **own} for n in workers]


def test_speedups_of_the_law_come_back_exactly(synthetic: Callable[..., pd.DataFrame]) -> None:
    found = only(synthetic(weak(contention=0.1, imbalance=0.3, latency_s=0.001)))
    alone = 1e-3 + 16e-4 + 1e-4
    for point in found.points:
        n = point.workers
        slow = 1.3 if n > 1 else 1.0
        move = (0.001 * np.log2(n) + 2 * (n - 1) / n * 61706 * 4 / 1e9) if n > 1 else 0.0
        step = (1e-3 + 16e-4) * slow * (1 + 0.1 * (n - 1)) + move + 1e-4
        assert point.speedup is not None and point.efficiency is not None
        assert point.speedup.value == pytest.approx(n * alone / step)
        assert (point.speedup.low, point.speedup.high) == pytest.approx((point.speedup.value,) * 2)
        assert point.predicted["none"] == pytest.approx(point.speedup.value)
        assert point.efficiency.value == pytest.approx(alone / step)


def test_imbalance_of_the_law_comes_back_exactly(synthetic: Callable[..., pd.DataFrame]) -> None:
    found = only(synthetic(weak(imbalance=0.5)))
    assert found.points[0].lif is None
    for point in found.points[1:]:
        assert point.lif is not None
        assert point.lif.value == pytest.approx(point.workers * 1.5 / (point.workers + 0.5))


def test_strong_scaling_gives_back_the_serial_fraction(synthetic: Callable[..., pd.DataFrame]) -> None:
    found = only(synthetic(strong()))
    assert found.kind == "strong"
    assert found.law is not None and found.law.name == "Amdahl"
    assert found.law.serial.value == pytest.approx(SERIAL, abs=1e-9)
    assert (found.law.serial.low, found.law.serial.high) == pytest.approx((SERIAL, SERIAL), abs=1e-9)
    assert [p.speedup.value for p in found.points if p.speedup] == pytest.approx(
        [1 / (SERIAL + (1 - SERIAL) / n) for n in WORKERS]
    )


def test_a_step_that_no_worker_lengthens_scales_ideally(synthetic: Callable[..., pd.DataFrame]) -> None:
    found = only(synthetic(weak(latency_s=0.0, bandwidth_bytes_s=1e30)))
    assert found.law is not None and found.law.name == "Gustafson"
    assert found.law.serial.value == pytest.approx(0.0, abs=1e-9)
    assert found.power is not None
    assert found.power.value == pytest.approx(-1.0, abs=1e-9)


def true_step(workers: int, compute: Sequence[float], move: float, update: float, noise: float) -> float:
    """The median step of the law, drawn here from its definition: who is ready last makes the others wait.

    `compute` holds each rank's; a third of it is forward and two thirds are backward, each with noise of its own.
    """
    normal = np.random.default_rng(99).standard_normal((4, workers, 400_000))
    forward, backward, moving, updating = np.exp(noise * normal)
    ready = (np.array(compute)[:, None] * (forward + 2 * backward) / 3).max(axis=0)
    return float(np.median(ready + move * moving[0] + update * updating.mean(axis=0)))


def test_with_noise_speedup_and_imbalance_lie_inside_their_intervals(synthetic: Callable[..., pd.DataFrame]) -> None:
    configs = weak((1, 2, 4), noise=0.1, contention=0.1, imbalance=0.3)
    steps = {}
    for n in (1, 2, 4):
        alone = (1e-3 + 16e-4) * (1 + 0.1 * (n - 1))
        move = 1e-4 * np.log2(n) + 2 * (n - 1) / n * 61706 * 4 / 1e9
        steps[n] = true_step(n, [alone] * (n - 1) + [alone * (1.3 if n > 1 else 1.0)], move, 1e-4, 0.1)
    truth = {n: n * steps[1] / step for n, step in steps.items()}
    inside = np.zeros(4)
    for seed in range(REPETITIONS):
        for at, point in enumerate(only(synthetic(configs, seed=seed, replicates=5)).points[1:]):
            s, lif, n = point.speedup, point.lif, point.workers
            assert s and lif and lif.low and lif.high
            inside[at] += s.low <= truth[n] <= s.high
            inside[2 + at] += lif.low <= n * 1.3 / (n + 0.3) <= lif.high
    assert inside.min() >= NEEDED, inside


@pytest.mark.parametrize("law", [laws.amdahl, laws.gustafson])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.6])
def test_with_noise_the_serial_share_lies_inside_its_interval(law: laws.Shape, share: float) -> None:
    rng = np.random.default_rng(int(100 * share))
    workers, replicates, repetitions = np.array([1.0, 2.0, 4.0, 8.0]), 3, 1000
    clean = law(np.array([share]), workers)
    logs = clean + rng.normal(0, 0.05, (repetitions, replicates, len(workers)))
    means = logs.mean(axis=1)
    n = np.full(means.shape, float(replicates))
    # Each series is a study of its own, whose noise is equal everywhere.
    variance = np.broadcast_to(logs.var(axis=1, ddof=1).mean(axis=1, keepdims=True), means.shape)
    freedom = np.full(means.shape, float((replicates - 1) * len(workers)))
    fits = laws.fit(law, laws.Cells(workers, means, n, variance, freedom, freedom[0, 0]))
    covered = np.mean((fits.low <= share) & (share <= fits.high))
    assert 0.92 <= covered <= 0.98
    assert np.mean(fits.misfit < 0.05) == pytest.approx(0.05, abs=0.025)


def test_amdahl_of_the_noisy_law_lies_inside_its_interval(synthetic: Callable[..., pd.DataFrame]) -> None:
    # Ranks with noise of their own wait for the slowest of them, so the share that the true medians have is a little
    # above SERIAL: SciPy finds it from them, not the code under test.
    counts = np.array([1.0, 2.0, 4.0])
    configs = [{**config, "noise": 0.05} for config in strong()[:3]]
    steps = [true_step(n, [0.02 + 0.08 / n] * n, 0.0, 0.0, 0.05) for n in (1, 2, 4)]
    (_, truth), _ = curve_fit(lambda n, a, s: a + np.log(s + (1 - s) / n), counts, np.log(steps), p0=(-2.3, 0.1))
    assert SERIAL < truth < SERIAL + 0.05
    inside = 0
    for seed in range(REPETITIONS):
        law = only(synthetic(configs, seed=seed, replicates=3)).law
        assert law and law.serial.low is not None and law.serial.high is not None
        inside += law.serial.low <= truth <= law.serial.high
    assert inside >= NEEDED, inside


def test_a_law_that_does_not_hold_is_said_not_to_fit(synthetic: Callable[..., pd.DataFrame]) -> None:
    slower = [{**c, "noise": 0.02, "contention": 0.5} for c in strong()]
    found = only(synthetic(slower, replicates=5))
    assert found.law is not None and found.law.fits is False
    assert "contradict" in found.law.note


def test_two_numbers_of_workers_describe_and_do_not_test(synthetic: Callable[..., pd.DataFrame]) -> None:
    found = only(synthetic(weak((1, 2), noise=0.05)))
    assert found.law is not None and found.law.fits is None
    assert "not a test" in found.law.note


def test_overlap_shows_in_which_formula_comes_nearest(synthetic: Callable[..., pd.DataFrame]) -> None:
    hidden = only(synthetic(weak(overlap=1.0, latency_s=0.001)))
    assert hidden.overlap == "communication"
    assert hidden.points[1].predicted["communication"] == pytest.approx(hidden.points[1].speedup.value)  # type: ignore[union-attr]
    assert only(synthetic(weak(latency_s=0.001))).overlap == "none"


def test_three_points_and_three_coefficients_say_that_r2_means_nothing(synthetic: Callable[..., pd.DataFrame]) -> None:
    found = only(synthetic(weak((1, 2, 3), imbalance=0.3, noise=0.05)))
    assert found.regression is not None
    assert found.regression.freedom == 0
    assert "R² means nothing" in found.regression.note
    assert all(one.low is None for one in found.regression.coefficients)


def test_a_single_replicate_of_three_points_is_not_regressed(synthetic: Callable[..., pd.DataFrame]) -> None:
    found = only(synthetic(weak((1, 2, 3), imbalance=0.3), replicates=1))
    assert found.regression is not None and not found.regression.coefficients
    assert "R² means nothing" in found.regression.note


def test_more_numbers_of_workers_leave_degrees_of_freedom(synthetic: Callable[..., pd.DataFrame]) -> None:
    found = only(synthetic(weak((1, 2, 3, 4, 6), imbalance=0.3, contention=0.2, noise=0.02)))
    assert found.regression is not None and found.regression.freedom == 2
    assert "2 degrees of freedom" in found.regression.note


def test_a_study_with_one_number_of_workers_has_no_series(synthetic: Callable[..., pd.DataFrame]) -> None:
    trials = synthetic(weak((2,)))
    assert scaling(trials, ["framework", "batch_size", "workers"]) == []


def test_a_single_trial_beside_replicates_leaves_the_laws_without_interval(
    synthetic: Callable[..., pd.DataFrame],
) -> None:
    noisy = synthetic(weak((1, 2), noise=0.05), replicates=5)
    lost = noisy[(noisy["workers"] > 1) | (noisy["replicate"] == 0)]
    lost.attrs["factors"] = noisy.attrs["factors"]
    for trials, known in ((noisy, True), (lost, False)):
        series = only(trials)
        assert series.law is not None and series.power is not None and series.points[1].speedup is not None
        told = [series.law.serial.low, series.power.low, series.points[1].speedup.low]
        assert [low is not None for low in told] == [known] * 3


def test_a_law_is_not_contradicted_by_trials_whose_noise_nothing_tells(synthetic: Callable[..., pd.DataFrame]) -> None:
    noisy = synthetic(weak((1, 2, 4, 8), noise=0.05), replicates=5)
    lost = noisy[(noisy["workers"] == 1) | (noisy["replicate"] == 0)]
    lost.attrs["factors"] = noisy.attrs["factors"]
    for trials, known in ((noisy, True), (lost, False)):
        law = only(trials).law
        assert law is not None and (law.fits is not None) == known


def test_speedups_have_no_more_degrees_of_freedom_than_all_replicates(synthetic: Callable[..., pd.DataFrame]) -> None:
    trials = synthetic(weak((1, 2, 4), noise=0.05), replicates=2)
    series = only(trials)
    errors = [point.t_iter.error for point in series.points]
    for point, error in zip(series.points[1:], errors[1:], strict=True):
        assert point.speedup is not None and point.speedup.low is not None and point.speedup.high is not None
        assert error is not None and errors[0] is not None
        half = np.log(point.speedup.high / point.speedup.low) / 2
        assert half >= 0.999 * critical(3, 2) * np.hypot(error, errors[0])
