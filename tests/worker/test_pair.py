"""The plain line between the first and the last rank."""

from __future__ import annotations

import threading

import pytest

from steplab_worker import pair
from steplab_worker.messages import Offer, Offered
from steplab_worker.placement import Placement

PLACE = Placement("here", 0, "127.0.0.1")
HANGS_S = 120.0


def connected(ranks: int) -> list[pair.Pair]:
    """The ends of all ranks, met through a laboratory that passes addresses on."""
    offers: dict[int, str] = {}
    came = threading.Barrier(ranks, timeout=HANGS_S)
    ends: dict[int, pair.Pair] = {}

    def rank(number: int) -> None:
        def ask(message: Offer, kind: object) -> Offered:
            offers[number] = message.address
            came.wait()
            return Offered([offers[at] for at in range(ranks)])

        ends[number] = pair.connect(ask, PLACE, number)

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS_S)
    return [ends[number] for number in range(ranks)]


def test_the_first_and_the_last_rank_have_a_line_and_the_others_none() -> None:
    ends = connected(3)
    try:
        assert [end.line is not None for end in ends] == [True, False, True]
        ends[1].send(5)
        ends[1].receive(5)  # who only looks on waits for nobody
        ends[0].send(1000)
        ends[2].receive(1000)
    finally:
        for end in ends:
            end.close()


def test_a_rank_alone_has_none() -> None:
    (end,) = connected(1)
    assert end.line is None


def test_a_partner_that_has_gone_is_told() -> None:
    first, last = connected(2)
    last.close()
    with pytest.raises(ConnectionError, match="has gone"):
        first.receive(1)
    first.close()
