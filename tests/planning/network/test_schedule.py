"""Backward and exchanges side by side, against schedules worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab.planning.network.schedule import Cores, Message, simulate


def test_an_exchange_that_fits_into_backward_is_hidden() -> None:
    timeline = simulate(1.0, [Message(0.2, 0.0, 0.5)])
    assert (timeline.ended, timeline.exposed, timeline.in_flight) == pytest.approx((1.0, 0.0, 0.5))


def test_without_overlap_everything_is_exposed() -> None:
    timeline = simulate(1.0, [Message(1.0, 0.1, 0.4), Message(1.0, 0.1, 0.4)])
    assert timeline.exposed == pytest.approx(1.0)


def test_messages_queue_for_the_wire() -> None:
    timeline = simulate(1.0, [Message(0.5, 0.0, 1.0), Message(0.6, 0.0, 1.0)])
    assert timeline.ended == pytest.approx(2.5)


def test_several_in_flight_share_the_wire_and_spend_their_latencies_together() -> None:
    messages = [Message(0.0, 0.3, 0.1)] * 4
    assert simulate(0.0, messages, in_flight=1).ended == pytest.approx(4 * 0.4)
    assert simulate(0.0, messages, in_flight=4).ended == pytest.approx(0.3 + 4 * 0.1)


def test_backward_ends_when_it_ends_however_full_the_wire_is() -> None:
    timeline = simulate(1.0, [Message(0.0, 0.0, 5.0), Message(0.5, 0.0, 5.0)])
    assert (timeline.computed, timeline.ended) == pytest.approx((1.0, 10.0))


def test_a_collective_takes_its_share_of_a_full_core() -> None:
    # One core for both: the collective needs 0.4 of it and gets it, so backward runs at 0.6 for half a second.
    timeline = simulate(1.0, [Message(0.0, 0.0, 0.5, cpu_seconds=0.2)], cores=Cores(1.0, 1.0))
    assert timeline.computed == pytest.approx(1.2)
    # It needs a whole core: each gets a half until the collective ends.
    timeline = simulate(1.0, [Message(0.0, 0.0, 0.5, cpu_seconds=0.5)], cores=Cores(1.0, 1.0))
    assert (timeline.computed, timeline.in_flight) == pytest.approx((1.5, 1.0))
    # A core of its own disturbs nobody.
    timeline = simulate(1.0, [Message(0.0, 0.0, 0.5, cpu_seconds=0.5)], cores=Cores(2.0, 1.0))
    assert (timeline.computed, timeline.in_flight) == pytest.approx((1.0, 0.5))


messages = st.builds(Message, st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 0.5))


@given(st.lists(messages, max_size=8), st.integers(1, 4), st.sampled_from([0.5, 1.0, 1.5, float("inf")]))
def test_nothing_is_lost_or_made_faster(sent: list[Message], in_flight: int, there: float) -> None:
    timeline = simulate(1.0, sent, in_flight, Cores(there, 1.0))
    assert timeline.computed >= 1.0 - 1e-9
    assert timeline.ended >= timeline.computed - 1e-9
    assert timeline.ended >= sum(message.moving for message in sent) - 1e-6
    work = sum(message.latency + message.moving for message in sent)
    # No slower than half speed for both, one after the other.
    assert timeline.ended <= 2 * (1.0 + work) + 1e-6
    if not sent:
        assert timeline.ended == pytest.approx(1.0)


def test_messages_that_take_no_time_expose_nothing() -> None:
    assert simulate(1.0, [Message(1.0, 0.0, 0.0)] * 3).exposed == 0.0
