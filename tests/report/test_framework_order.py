"""Frameworks in order: the best first, with those that cannot be told apart, never against a real difference."""

from __future__ import annotations

from dataclasses import replace

from steplab.analysis.frameworks import Comparison, compare_frameworks
from steplab.report.framework_order import order


def pair(first: str, second: str, ratio: float, *, real: bool = True) -> Comparison:
    """How two compare, made from a comparison of the analysis."""
    import pandas as pd

    rows = [
        {"status": "ok", "framework": name, "replicate": at, "throughput": speed * (1 + 0.01 * at), "t_iter": 1 / speed}
        for name, speed in (("a", 2.0), ("b", 1.0))
        for at in range(3)
    ]
    known = compare_frameworks(pd.DataFrame(rows), ["framework"])[0]
    better = (first if ratio > 1 else second) if real else ""
    return replace(known, first=first, second=second, ratio=ratio, real=real, better=better)


def test_the_best_is_first_and_knows_whom_it_beats() -> None:
    places = order([pair("jax", "torch", 0.5), pair("jax", "mxnet", 0.9, real=False), pair("mxnet", "torch", 0.55)])
    assert [place.framework for place in places] == ["torch", "mxnet", "jax"]
    assert places[0].beats == ("jax", "mxnet")
    assert places[2].alike == ("mxnet",)
    assert places[2].ratio == 0.5


def test_nobody_stands_above_a_better_one_whatever_the_means_say() -> None:
    # b is better than a beyond doubt, although a's mean against all others is higher.
    pairs = [pair("a", "b", 0.9), pair("a", "c", 9.0, real=False), pair("b", "c", 1.1, real=False)]
    assert [place.framework for place in order(pairs)][:2] == ["b", "a"]


def test_differences_that_go_round_have_no_order() -> None:
    assert order([pair("a", "b", 2.0), pair("b", "c", 2.0), pair("a", "c", 0.5)]) == []
