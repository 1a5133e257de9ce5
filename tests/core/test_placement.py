"""Workers, nodes and ranks per node: any two give the third."""

from __future__ import annotations

import pytest

from steplab.core import placement
from steplab.core.resolution import impossible, resolve
from steplab.core.trial import Level, trial_id


@pytest.mark.parametrize(
    ("said", "grid"),
    [
        ({}, (1, 1, 1)),
        ({"workers": 4}, (4, 1, 4)),
        ({"nodes": 3}, (3, 3, 1)),
        ({"ranks_per_node": 2}, (2, 1, 2)),
        ({"workers": 4, "ranks_per_node": 2}, (4, 2, 2)),
        ({"workers": 4, "nodes": 4}, (4, 4, 1)),
        ({"nodes": 2, "ranks_per_node": 3}, (6, 2, 3)),
        ({"workers": 3, "placement": "net:box"}, (3, 3, 1)),
        ({"workers": 4, "nodes": 2, "placement": "net:box"}, (4, 2, 2)),
        ({"workers": 4, "ranks_per_node": 4, "placement": "net:box"}, (4, 1, 4)),
    ],
)
def test_what_is_not_said_follows(said: dict[str, Level], grid: tuple[int, int, int]) -> None:
    resolved = resolve(said)
    assert (resolved.workers, resolved.nodes, resolved.ranks_per_node) == grid


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"workers": 4, "nodes": 3}, "4 workers cannot be divided evenly among 3 nodes"),
        ({"workers": 2, "nodes": 4}, "2 workers cannot be divided evenly among 4 nodes"),
        ({"workers": 4, "ranks_per_node": 3}, "4 workers cannot be divided into nodes of 3"),
        ({"rate": "1gbit"}, "rate = '1gbit' needs placement = 'net:NAME'"),
    ],
)
def test_what_cannot_be_is_told(said: dict[str, Level], reason: str) -> None:
    assert impossible(said).startswith(reason)


def test_the_global_batch_is_divided_among_the_workers_of_all_nodes() -> None:
    assert resolve({"nodes": 2, "ranks_per_node": 2, "global_batch_size": 64}).batch_size == 16


def test_a_trial_that_says_nothing_of_nodes_has_the_id_that_it_always_had() -> None:
    assert trial_id({"network": "lenet5", "workers": 2}, 0) == "a100ca22237e6af4"


@pytest.mark.parametrize("level", ["net:", "net:A", "net:a b", "net:-a", "net:../x", "box", 1, "net:" + "a" * 33])
def test_a_placement_is_a_net_with_a_plain_name(level: object) -> None:
    assert placement.placement_problem(level).startswith("must be 'net:NAME'")


@pytest.mark.parametrize("level", ["1 gbit", "fast", "0.5gbit", 1, "1gbps", "10bit"])
def test_a_rate_has_a_unit(level: object) -> None:
    assert placement.rate_problem(level) == "must be 'unshaped' or a rate such as '1gbit', '100mbit'"
