"""Designs: every configuration once per block, reproducible order, exclusions, drawn configurations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.core.study_file import parse_study
from steplab.core.trial import Trial
from steplab.design.plan import plan


def trials(factors: str, design: str = "", rest: str = "") -> list[Trial]:
    head = '[study]\nname = "x"\n[factors]\nframework = ["synthetic"]\n'
    return plan(parse_study(f"{head}{factors}\n[design]\n{design}\n{rest}", Path("s.toml")))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 999), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    st.integers(1, 4),
    st.integers(0, 99),
)
def test_each_block_holds_every_configuration_once(batches: list[int], workers: list[int], n: int, seed: int) -> None:
    planned = trials(f"batch_size = {batches}\nworkers = {workers}", f"replicates = {n}\nseed = {seed}")
    size = len(batches) * len(workers)
    assert len(planned) == n * size
    for block in range(n):
        part = planned[block * size : (block + 1) * size]
        assert {trial.replicate for trial in part} == {block}
        assert len({tuple(trial.config.items()) for trial in part}) == size


def test_the_order_is_random_but_repeatable() -> None:
    factors = f"batch_size = {list(range(1, 40))}"
    one, again = trials(factors, "seed = 3"), trials(factors, "seed = 3")
    other, given_order = trials(factors, "seed = 4"), trials(factors, 'order = "given"')
    assert [t.id for t in one] == [t.id for t in again]
    assert [t.id for t in one] != [t.id for t in other]
    assert sorted(t.id for t in one) == sorted(t.id for t in other)
    assert [t.config["batch_size"] for t in given_order[:39]] == list(range(1, 40))


def test_excluded_combinations_are_left_out() -> None:
    rule = '[[exclude]]\nframework = "synthetic"\nworkers = 3'
    planned = trials("workers = [1, 2, 3]\nbatch_size = [1, 2]", "replicates = 1", rule)
    assert Counter(t.config["workers"] for t in planned) == {1: 2, 2: 2}


def test_factors_that_do_not_apply_are_dropped_and_what_is_then_equal_runs_once() -> None:
    text = """
    [study]
    name = "x"
    [factors]
    framework = ["synthetic", "replay"]
    noise = [0.0, 0.1]
    [design]
    replicates = 1
    """
    planned = plan(parse_study(text, Path("s.toml")))
    by_framework = Counter(t.config["framework"] for t in planned)
    assert by_framework == {"synthetic": 2, "replay": 1}


def test_random_draws_different_possible_configurations() -> None:
    factors = (
        'kernel_size = [2, 3, 4, 5]\npool_size = [2, 3, 4, 5]\nstride = [1, 2, 3]\npadding = ["valid", "same"]\n'
        "filters = { low = 4, high = 64, scale = 'log' }"
    )
    planned = trials(factors, 'type = "random"\nn = 60\nreplicates = 1')
    assert len({t.id for t in planned}) == 60
    assert all(4 <= int(t.config["filters"]) <= 64 for t in planned)


def test_random_ends_when_the_space_is_exhausted() -> None:
    assert len(trials("batch_size = [1, 2, 3]", 'type = "random"\nn = 50\nreplicates = 1')) == 3


def test_latin_covers_every_level_evenly() -> None:
    planned = trials("batch_size = [1, 2, 4, 8]\nworkers = [1, 2]", 'type = "latin"\nn = 8\nreplicates = 1')
    assert len(planned) == 8
    spread = trials("batch_size = { low = 1, high = 1000 }", 'type = "latin"\nn = 10\nreplicates = 1')
    tenths = {min(int(t.config["batch_size"]) * 10 // 1001, 9) for t in spread}
    assert len(tenths) >= 9


def test_ids_depend_on_the_configuration_and_the_replicate_only() -> None:
    few = {t.id for t in trials("batch_size = [1, 2]", "replicates = 2\nseed = 1")}
    more = {t.id for t in trials("batch_size = [1, 2, 3]", "replicates = 3\nseed = 9")}
    assert few <= more
