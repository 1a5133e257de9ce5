"""Curves of seconds by message size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.planning.network.curve import fit_curve
from steplab.planning.network.profile import Point

SIZES = [1024 * 4**power for power in range(9)]


def points(seconds: list[float]) -> list[Point]:
    return [Point(bytes=size, seconds=time) for size, time in zip(SIZES, seconds, strict=False)]


def test_a_line_has_one_piece_with_its_latency_and_bandwidth() -> None:
    (piece,) = fit_curve(points([1e-4 + size / 1e9 for size in SIZES])).pieces
    assert (piece.from_bytes, piece.latency_s, piece.bytes_per_s) == pytest.approx((0.0, 1e-4, 1e9))


def test_a_burst_that_passes_unshaped_is_a_break() -> None:
    burst, fast, slow = 262144, 1e9, 12.5e6
    law = [8e-4 + min(size, burst) / fast + max(0, size - burst) / slow for size in SIZES]
    curve = fit_curve(points(law))
    assert [piece.from_bytes for piece in curve.pieces] == [0.0, burst]
    assert [curve.seconds(size) for size in SIZES] == pytest.approx(law, rel=0.05)  # half a millisecond of noise floor
    line = fit_curve(points(law), most_breaks=0)
    assert max(abs(line.seconds(size) / time - 1) for size, time in zip(SIZES, law, strict=True)) > 0.5


def test_noise_makes_no_breaks() -> None:
    rng = np.random.default_rng(1)
    noisy = [(1e-4 + size / 1e9) * rng.lognormal(0, 0.05) for size in SIZES]
    assert len(fit_curve(points(noisy)).pieces) == 1


@settings(max_examples=40)
@given(st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=9))
def test_it_never_falls_whatever_was_measured(seconds: list[float]) -> None:
    curve = fit_curve(points(seconds))
    values = [curve.seconds(size) for size in (0, *SIZES, 1 << 30)]
    assert all(0 <= before <= after * (1 + 1e-9) for before, after in itertools.pairwise(values))


def test_the_interval_holds_the_measured_ends() -> None:
    measured = [Point(bytes=size, seconds=1e-3, low=8e-4, high=2e-3) for size in SIZES]
    low, high = fit_curve(measured).ratios(SIZES[4])
    assert (low, high) == pytest.approx((0.8, 2.0), rel=1e-6)
