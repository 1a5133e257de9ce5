"""Addresses go out when all members have come, with the hosts of their placements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab.runner.ranks.rendezvous import Meeting
from steplab_worker.codec import ProtocolError
from steplab_worker.messages import Meet, Met
from steplab_worker.placement import Placement

PLACES = (Placement("a", 0, "10.0.0.1"), Placement("a", 1, "10.0.0.1"), Placement("b", 0, "fd00::2"))


@given(st.permutations(range(3)))
def test_nobody_is_told_before_the_last_has_come_in_whatever_order(order: list[int]) -> None:
    meeting = Meeting(PLACES)
    answers = [meeting.come(member, Meet(7000 + member)) for member in order]
    assert answers[:-1] == [None, None]
    assert answers[-1] == Met(["10.0.0.1:7000", "10.0.0.1:7001", "[fd00::2]:7002"])


def test_a_member_that_offers_no_port_has_no_address() -> None:
    meeting = Meeting(PLACES[:2])
    meeting.come(0, Meet(5))
    assert meeting.come(1, Meet()) == Met(["10.0.0.1:5", ""])


def test_they_can_meet_again() -> None:
    meeting = Meeting(PLACES[:1])
    assert meeting.come(0, Meet(1)) == Met(["10.0.0.1:1"])
    assert meeting.come(0, Meet(2)) == Met(["10.0.0.1:2"])


def test_a_member_cannot_come_twice_to_one_meeting() -> None:
    meeting = Meeting(PLACES)
    meeting.come(1, Meet())
    with pytest.raises(ProtocolError, match="again before the others"):
        meeting.come(1, Meet())


def test_who_is_awaited_is_known_once_somebody_waits() -> None:
    meeting = Meeting(PLACES)
    assert meeting.awaited == []
    meeting.come(2, Meet())
    assert meeting.awaited == [0, 1]
