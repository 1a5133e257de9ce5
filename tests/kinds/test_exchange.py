"""Exchanges are measured until there are enough of them, or until they have taken long enough."""

from __future__ import annotations

import pytest

from steplab.core.measurement import Measure
from steplab.kinds.director import OutOfTurn
from steplab.kinds.exchange import FEWEST, WARMUP, ExchangeDirector
from steplab_worker.messages import Block, Iterate, Offer, Offered


def director(seconds: float = 2.0) -> ExchangeDirector:
    return ExchangeDirector(Measure(iterations=50), 1, seconds=seconds)


def played(directing: ExchangeDirector, cost: float) -> list[int]:
    """The blocks that two ranks are asked for."""
    offered = directing.answers({0: Offer("127.0.0.1:5"), 1: Offer("")})
    assert offered == {rank: Offered(["127.0.0.1:5", ""]) for rank in (0, 1)}
    asked, times = [], []
    while True:
        answer = directing.answers({rank: Block("native", times) for rank in (0, 1)})[0]
        assert isinstance(answer, Iterate)
        if not answer.iterations:
            return asked
        asked.append(-answer.iterations if answer.warmup else answer.iterations)
        times = [cost] * answer.iterations


def test_quick_exchanges_are_all_measured() -> None:
    asked = played(director(), 1e-3)
    assert asked[:2] == [-WARMUP, FEWEST]
    assert sum(count for count in asked if count > 0) == 50


def test_slow_ones_are_few() -> None:
    assert played(director(), 5.0) == [-WARMUP, FEWEST]


def test_the_time_that_is_left_is_used() -> None:
    assert sum(count for count in played(director(2.0), 0.1) if count > 0) == pytest.approx(20, abs=1)


def test_exchanges_that_take_no_time_end_too() -> None:
    assert sum(count for count in played(director(), 0.0) if count > 0) == 50


def test_nobody_iterates_before_the_line_is_there() -> None:
    with pytest.raises(OutOfTurn, match="sent Block where Offer was due"):
        director().answers({0: Block("native", []), 1: Offer("")})
