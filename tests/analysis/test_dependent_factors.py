"""Factors that follow from others: recognised by more than chance, and no reason to take series apart."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.dependent_factors import dependent_factors
from steplab.analysis.study import analyse


def names(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return [(one.factor, one.follows) for one in dependent_factors(frame, list(frame.columns))]


def test_nodes_that_grow_with_the_workers_follow_from_them() -> None:
    frame = pd.DataFrame({"workers": [1, 2, 4, 8, 16], "nodes": [1, 1, 1, 1, 2]})
    assert names(frame) == [("nodes", "workers")]


def test_a_constant_multiple_is_named() -> None:
    frame = pd.DataFrame({"workers": [8, 16, 32], "nodes": [1, 2, 4]})
    (nodes,) = dependent_factors(frame, ["workers", "nodes"])
    assert nodes.sentence.startswith("nodes is always 0.125 × workers")


def test_a_version_follows_from_its_framework_where_that_was_seen_often() -> None:
    rows = [{"framework": f, "version": v, "batch_size": b} for (f, v), b in product([("a", 1), ("b", 2)], [8, 16])]
    assert names(pd.DataFrame(rows)) == [("version", "framework")]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(list(product([1, 2], [1, 2])), columns=["workers", "nodes"]),
        pd.DataFrame({"batch_size": [3, 17, 31, 99], "image_size": [64, 32, 96, 48]}),  # a random design
        pd.DataFrame({"workers": [1, 2, 4], "threads": [4, 2, 1]}),  # the machine shared out: both matter
        pd.DataFrame({"workers": [1, 2, 4], "batch_size": [64, 128, 256]}),  # fixes the work
        pd.DataFrame(
            {"framework": ["a", "a", "b", "b"], "compile": ["on", "on", None, None], "batch_size": [1, 2, 1, 2]}
        ),
    ],
)  # fmt: skip
def test_what_is_no_consequence_stays_a_factor(frame: pd.DataFrame) -> None:
    assert names(frame) == []


@pytest.fixture
def cluster(trial: Callable[..., dict[str, object]]) -> Callable[..., pd.DataFrame]:
    """The table `trials` of a cluster with eight workers on a node, by the number of workers."""

    def table(seconds: dict[int, float], batch: float) -> pd.DataFrame:
        rows = [trial(str(n), 0, workers=n, nodes=-(-n // 8), t_iter=t, kind="step") for n, t in seconds.items()]
        return pd.DataFrame(rows).assign(batch_size=batch, throughput=np.nan)

    return table


def test_a_series_is_not_split_by_what_follows_from_the_workers(cluster: Callable[..., pd.DataFrame]) -> None:
    analysis = analyse(cluster({1: 0.1, 8: 0.125, 16: 0.16, 32: 0.2}, batch=32), ["workers", "nodes"])
    assert [len(series.points) for series in analysis.scaling] == [4]
    assert min(group.efficiency or 1.0 for group in analysis.groups) == pytest.approx(0.5)
    assert [one.factor for one in analysis.dependent] == ["nodes"]


def test_without_a_batch_size_falling_times_share_the_work(
    cluster: Callable[..., pd.DataFrame],
) -> None:
    analysis = analyse(cluster({1: 100.0, 8: 15.5, 16: 10.0, 32: 6.25}, batch=np.nan), ["workers", "nodes"])
    assert [group.throughput for group in analysis.groups] == [None] * 4
    assert analysis.groups[0].factors["workers"] == 32  # by time
    assert analysis.groups[0].efficiency == pytest.approx(0.5)
    assert "strong scaling" in analysis.assumption


def test_without_a_batch_size_times_that_do_not_fall_are_weak_scaling(cluster: Callable[..., pd.DataFrame]) -> None:
    analysis = analyse(cluster({1: 0.1, 8: 0.125, 16: 0.16, 32: 0.2}, batch=np.nan), ["workers", "nodes"])
    assert analysis.groups[0].factors["workers"] == 1
    assert min(group.efficiency or 1.0 for group in analysis.groups) == pytest.approx(0.5)
    assert "weak scaling" in analysis.assumption


def test_without_a_batch_size_one_falling_series_decides_so_that_no_efficiency_exceeds_100_percent(
    trial: Callable[..., dict[str, object]],
) -> None:
    seconds = {"a": {1: 8.0, 2: 4.4, 4: 2.4}, "b": {1: 8.0, 2: 8.8, 4: 9.6}, "c": {1: 4.0, 2: 4.0, 4: 4.1}}
    rows = [
        trial(f"{name}{n}", 0, network=name, workers=n, t_iter=t, kind="step")
        for name, times in seconds.items()
        for n, t in times.items()
    ]
    analysis = analyse(pd.DataFrame(rows).assign(batch_size=np.nan, throughput=np.nan), ["network", "workers"])
    assert max(group.efficiency or 0.0 for group in analysis.groups) <= 1.0
    assert "Steps get shorter with more workers in 1 of 3 series" in analysis.assumption


def test_of_factors_that_follow_from_each_other_one_stays() -> None:
    pairs = [("sgd", 0.1, "a"), ("adam", 0.001, "b")]
    rows = [
        {"optimizer": o, "learning_rate": r, "label": n, "batch_size": b} for (o, r, n), b in product(pairs, [8, 16])
    ]
    frame = pd.DataFrame(rows)
    assert names(frame.drop(columns="label")) == [("learning_rate", "optimizer")]
    assert names(frame) == [("learning_rate", "optimizer"), ("label", "optimizer")]


def test_what_follows_from_a_dependent_factor_follows_still() -> None:
    layouts = [(1, 1, "inside"), (2, 1, "inside"), (4, 2, "net"), (8, 2, "net"), (16, 4, "net"), (32, 4, "net")]
    frame = pd.DataFrame(layouts, columns=["workers", "nodes", "wire"])
    assert names(frame) == [("nodes", "workers"), ("wire", "nodes")]
