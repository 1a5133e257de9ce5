"""Clock offsets between hosts come back from disturbed answers."""

from __future__ import annotations

import numpy as np
import pytest

from steplab.runner.ranks.clocks import Ping, offsets


def asked(rng: np.random.Generator, ahead: float) -> list[Ping]:
    """Nine questions to a clock that is ahead, with delays both ways of at least 1 ms."""
    pings, now = [], 0.0
    for there, back in 1e-3 + rng.exponential(2e-3, (9, 2)):
        pings.append(Ping(now, now + there + ahead, now + there + back))
        now += 1.0
    return pings


def test_offsets_are_within_half_of_the_quickest_answer() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        pings = {0: asked(rng, 3.0), 2: asked(rng, -40.0)}
        found = offsets({0: "a", 1: "a", 2: "b", 3: "b"}, pings)
        assert found[0] == found[1] == 0.0
        error = sum(min(ping.answered - ping.asked for ping in one) for one in pings.values()) / 2
        assert found[2] == found[3] == pytest.approx(-43.0, abs=error)
