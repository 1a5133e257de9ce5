"""Frameworks in order, with the groups of those that cannot be told apart."""

from __future__ import annotations

from steplab.analysis.frameworks import Comparison
from steplab.analysis.ranking import ranking


def compared(
    first: str, second: str, ratio: float, real: bool = True, batch: int | None = None, measure: str = "throughput"
) -> Comparison:
    """A comparison; more is better."""
    factors = None if batch is None else {"batch_size": batch, "network": "lenet5"}
    better = (first if ratio > 1 else second) if real else ""
    return Comparison(measure, first, second, factors, ratio, ratio / 1.1, ratio * 1.1, 6, 2, real, better, "")


def test_the_best_comes_first_and_the_rest_in_its_measure() -> None:
    found = ranking([compared("jax", "mxnet", 2.0), compared("jax", "torch", 1.25), compared("mxnet", "torch", 0.625)])
    assert found is not None
    assert [(place.framework, round(place.ratio, 3), place.letters) for place in found.places] == [
        ("jax", 1.0, "a"),
        ("torch", 0.8, "b"),
        ("mxnet", 0.5, "c"),
    ]
    assert found.sentence == (
        "By throughput over 2 configurations: jax before torch (0.80 times as much), mxnet (0.50 times as much)."
    )


def test_groups_may_overlap() -> None:
    found = ranking(
        [compared("a", "b", 1.1, real=False), compared("b", "c", 1.1, real=False), compared("a", "c", 1.21)]
    )
    assert found is not None
    assert [place.letters for place in found.places] == ["a", "ab", "b"]
    assert found.together == (("a", "b"), ("b", "c"))
    assert "a and b cannot be told apart; b and c cannot be told apart" in found.sentence


def test_two_that_share_nothing_differ_if_a_third_lies_between_them() -> None:
    found = ranking([compared("a", "b", 1.2), compared("b", "c", 1.2)])
    assert found is not None
    assert [place.letters for place in found.places] == ["a", "b", "c"]
    assert "told apart" not in found.sentence


def test_nothing_real_is_no_order() -> None:
    found = ranking([compared("a", "b", 1.1, real=False)])
    assert found is not None
    assert found.sentence == "By throughput over 2 configurations, a and b cannot be told apart."


def test_single_configurations_that_differ_are_said() -> None:
    found = ranking(
        [compared("a", "b", 1.0, real=False), compared("a", "b", 1.5, batch=8), compared("a", "b", 0.9, False, 16)]
    )
    assert found is not None
    assert "cannot be told apart on average, but 1 of 2 comparisons of single configurations differ" in found.sentence
    assert "with batch_size 8, a differs from b by a factor of 1.50." in found.sentence


def test_a_configuration_with_another_order_is_said() -> None:
    found = ranking([compared("a", "b", 1.5), compared("a", "b", 2.0, batch=8), compared("a", "b", 0.8, batch=16)])
    assert found is not None
    assert found.sentence.endswith("; not everywhere: with batch_size 16, b is better than a.")


def test_nobody_stands_above_a_better_one() -> None:
    # Pairs over different configurations: the mean ratios alone would put c first.
    pairs = [compared("a", "b", 1.05), compared("b", "c", 0.2, real=False), compared("a", "c", 1.1)]
    found = ranking(pairs)
    assert found is not None
    assert found.places[0].framework == "a"


def test_real_differences_that_go_round_have_no_order() -> None:
    assert ranking([compared("a", "b", 1.5), compared("b", "c", 1.5), compared("a", "c", 0.7)]) is None


def test_frameworks_without_a_common_configuration_have_no_order() -> None:
    assert ranking([compared("a", "b", 1.5), compared("c", "d", 1.5)]) is None


def test_less_time_to_accuracy_is_better() -> None:
    pair = Comparison("time to accuracy", "a", "b", None, 2.0, 1.8, 2.2, 6, 2, True, "b", "")
    found = ranking([pair], "time to accuracy")
    assert found is not None
    assert [(place.framework, round(place.ratio, 6)) for place in found.places] == [("b", 1.0), ("a", 2.0)]
