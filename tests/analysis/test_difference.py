"""Two studies compared: what is called changed, what is matched, what is listed beside."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.difference import Side, difference


def side(rng: np.random.Generator, noise: float, replicates: int = 3, **more: object) -> Side:
    """Four configurations with different noise; `slower` multiplies the times of the first."""
    slower = float(str(more.pop("slower", 1.0)))
    rows = [
        {"status": "ok", "batch_size": batch, "workers": 1, "replicate": replicate, **more,
         "t_iter": 0.01 * batch * (slower if batch == 1 else 1.0) * np.exp(noise * batch * rng.standard_normal())}
        for batch in (1, 2, 3, 4) for replicate in range(replicates)
    ]  # fmt: skip
    return Side(pd.DataFrame(rows), ("batch_size", "workers", *more))


def test_studies_without_a_change_are_hardly_ever_called_changed() -> None:
    rng, called, studies = np.random.default_rng(4), 0, 300
    for _ in range(studies):
        found = difference(side(rng, 0.02), side(rng, 0.02))
        assert found.overall is not None
        called += any(change.verdict for change in (found.overall, *found.changes))
    # 5 %, and what chance may add to that among so many studies (99 %).
    assert called / studies <= 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / studies)


def test_a_real_slow_down_is_found_where_it_is() -> None:
    rng = np.random.default_rng(0)
    found = difference(side(rng, 0.005, 5), side(rng, 0.005, 5, slower=1.1), 0.05)
    assert [change.factors for change in found.with_verdict("slower")] == [{"batch_size": 1, "workers": 1}]
    change = found.changes[0]
    assert change.low is not None and change.high is not None
    assert change.low < 1.1 < change.high
    assert (change.too_slow, found.too_slow) == (True, True)


def test_a_slow_down_that_may_be_smaller_than_allowed_does_not_fail() -> None:
    rng = np.random.default_rng(0)
    found = difference(side(rng, 0.01, 4), side(rng, 0.01, 4, slower=1.1), 0.09)
    assert found.with_verdict("slower")
    assert not found.too_slow


def test_without_replicates_nothing_is_sure() -> None:
    rng = np.random.default_rng(0)
    found = difference(side(rng, 0.0, 1), side(rng, 0.0, 1, slower=2.0), 0.05)
    assert found.changes[0].ratio == pytest.approx(2.0)
    assert (found.changes[0].low, found.changes[0].verdict, found.too_slow) == (None, "", False)


def test_a_factor_of_one_level_here_and_another_there_is_what_was_changed() -> None:
    rng = np.random.default_rng(0)
    found = difference(side(rng, 0.01, environment="old", host="a"), side(rng, 0.01, environment="new", host="a"))
    assert len(found.changes) == 4
    assert [(one.what, one.before, one.after) for one in found.surroundings] == [("environment", "old", "new")]


def test_variables_and_versions_that_differ_are_listed() -> None:
    rng = np.random.default_rng(0)
    sides = [side(rng, 0.01, framework="torch") for _ in range(2)]
    for own, version, variables in zip(sides, ("2.12", "2.13"), ("A=1 B=2", "A=1"), strict=True):
        own.trials["version"], own.trials["variables"] = version, variables
    found = difference(*sides)
    listed = [(one.what, one.before, one.after) for one in found.surroundings]
    assert listed == [("version of torch", "2.12", "2.13"), ("variable B", "2", "not set")]


def test_what_only_one_study_has_is_named() -> None:
    rng = np.random.default_rng(0)
    whole, part = side(rng, 0.01), side(rng, 0.01)
    part = Side(part.trials[part.trials["batch_size"] > 2], part.factors)
    found = difference(whole, part)
    assert [levels["batch_size"] for levels in found.only_before] == [1, 2]
    assert (len(found.changes), found.only_after) == (2, ())


def of_times(*times: float) -> Side:
    rows = [{"status": "ok", "batch_size": 8, "replicate": at, "t_iter": time} for at, time in enumerate(times)]
    return Side(pd.DataFrame(rows), ("batch_size",))


def test_what_may_be_no_change_is_not_too_slow() -> None:
    found = difference(of_times(10.0, 10.1, 10.2), of_times(10.22, 10.47, 10.42), 0.0)
    assert found.overall is not None and found.overall.low is not None
    assert (found.overall.low < 1, found.overall.verdict, found.too_slow) == (True, "", False)


def test_with_nothing_allowed_slower_is_too_slow() -> None:
    rng, slower = np.random.default_rng(1), 0
    for _ in range(60):
        found = difference(side(rng, 0.01), side(rng, 0.01, slower=1.05), 0.0)
        assert [change.too_slow for change in found.changes] == [change.verdict == "slower" for change in found.changes]
        slower += found.too_slow
    assert 0 < slower < 60


def of_logs(**logs: tuple[float, ...]) -> Side:
    """A study of configurations with these logarithms of step times."""
    rows = [
        {"status": "ok", "network": name, "replicate": at, "t_iter": 0.01 * np.exp(log)}
        for name, own in logs.items() for at, log in enumerate(own)
    ]  # fmt: skip
    return Side(pd.DataFrame(rows), ("network",))


def test_a_change_is_told_exactly_where_its_interval_leaves_1_out() -> None:
    noise = 0.03 * np.array([-1.0, 0.0, 1.0])
    before = of_logs(**{f"net{at}": tuple(noise) for at in range(12)})
    # 2.4 standard errors of the mean over all: beyond a single interval, within one that holds for all 13 questions.
    after = of_logs(**{f"net{at}": tuple(noise + 2.4 * 0.03 * np.sqrt(2 / 3 / 12)) for at in range(12)})
    found = difference(before, after)
    assert found.overall is not None and found.overall.low is not None
    assert (found.overall.low < 1, found.overall.verdict) == (True, "")


def test_no_change_stands_against_its_interval() -> None:
    rng, told = np.random.default_rng(7), set()
    for _ in range(60):
        found = difference(side(rng, 0.01), side(rng, 0.01, slower=1.04), 0.01)
        assert found.overall is not None
        for change in (found.overall, *found.changes):
            assert change.low is not None and change.high is not None
            apart = "slower" if change.low > 1 else "faster" if change.high < 1 else ""
            assert (change.verdict, change.too_slow) == (apart, change.low > 1.01)
            told.add(change.verdict)
    assert told >= {"", "slower"}
