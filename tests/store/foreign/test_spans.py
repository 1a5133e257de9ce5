"""Stretches of time against painting every moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steplab.store.foreign.spans import covers, length, minus, union, within

SPAN = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
SPANS = st.lists(SPAN, max_size=8)


def painted(spans):
    return {moment for start, end in spans for moment in range(start, end)}


@given(SPANS)
def test_a_union_covers_the_same_moments_once(spans):
    assert painted(union(spans)) == painted(spans)
    assert length(union(spans)) == len(painted(spans))


@given(SPANS, SPANS)
def test_what_is_cut_out_is_gone_and_nothing_else(spans, taken):
    left = minus(union(spans), union(taken))
    assert painted(left) == painted(spans) - painted(taken)
    assert left == sorted(left)


@given(SPANS, SPAN)
def test_a_window_keeps_what_lies_in_it(spans, window):
    assert painted(within(union(spans), *window)) == painted(spans) & painted([window])


@given(SPANS, st.integers(0, 55))
def test_a_moment_is_covered_if_painted(spans, moment):
    assert covers(union(spans), moment + 0.5) == (moment in painted(spans))
