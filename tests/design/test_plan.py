"""Designs: every configuration once per block, reproducible order, exclusions, drawn configurations."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.core.errors import StudyError
from steplab.core.trial import Trial
from steplab.design import sampling
from steplab.design.configurations import NONE, Column, Configurations
from steplab.design.plan import Plan, plan
from steplab.study.file import parse_study
from steplab.study.sections import Range


def trials(factors: str, design: str = "", rest: str = "") -> Plan:
    head = '[study]\nname = "x"\n[factors]\nframework = ["synthetic"]\n'
    return plan(parse_study(f"{head}{factors}\n[design]\n{design}\n{rest}", Path("s.toml")))


@settings(max_examples=25)
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


def test_a_draw_of_more_than_there_are_ends_with_a_word_on_it() -> None:
    for kind in ("random", "latin"):
        planned = trials("batch_size = [1, 2, 3]", f'type = "{kind}"\nn = 1_000_000\nreplicates = 1')
        assert len(planned) == 3
        asked = "s.toml, design.n: 1,000,000 different configurations were asked for"
        assert planned.note == f"{asked}, but only 3 can be drawn"
    assert trials("batch_size = [1, 2, 3]", 'type = "random"\nn = 3').note == ""


def test_a_draw_stops_when_it_has_all_that_rules_and_networks_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    seen = sampling.column_at
    monkeypatch.setattr(sampling, "column_at", lambda factor, u: drawn.append(len(u)) or seen(factor, u))
    rule = "[[exclude]]\nbatch_size = [1, 2, 3]\n"
    planned = trials("batch_size = [1, 2, 3, 4]", 'type = "random"\nn = 9', rule)
    assert {trial.config["batch_size"] for trial in planned} == {4}
    assert sum(drawn) <= 2 * 9


ODD = ["plain", 'with "quotes"', "µ-ö", "back\\slash", "[b]markup[/b]"]


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from([1, 2, 3, 8]), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from([0.0, 0.1, 1e-7]), min_size=1, max_size=3, unique=True),
    st.integers(1, 3),
    st.data(),
)
def test_a_plan_finds_its_trials_by_their_ids(
    workers: list[int], noise: list[float], replicates: int, data: st.DataObject
) -> None:
    factors = f"workers = {workers}\nnoise = {noise}\nbatch_size = [1, 2]"
    study = f'[study]\nname = "x"\n[factors]\nframework = ["synthetic", "replay"]\n{factors}\n'
    planned = plan(parse_study(f"{study}[design]\nreplicates = {replicates}", Path("s.toml")))
    every = list(planned)
    ids = [trial.id for trial in every]
    assert list(planned.ids()) == ids
    assert [planned[number] for number in range(len(planned))] == every
    some = set(data.draw(st.lists(st.sampled_from(ids), max_size=8)))
    assert planned.among(some | {"of another study"}) == some
    assert list(planned.without(some)) == [trial for trial in every if trial.id not in some]
    chosen = planned.selected(some)
    assert list(chosen) == [trial for trial in every if trial.id in some]
    assert set(chosen.ids()) == some and len(chosen) == len(some)


def test_the_ids_of_odd_levels_are_those_of_their_trials() -> None:
    columns = {"b": Column(ODD, np.arange(5)), "a": Column([1, 1.0, True, 1e300, -5], np.arange(5))}
    table = Configurations(columns | {"c": Column([7], np.array([0, NONE, 0, NONE, 0]))})
    assert list(table.ids(np.arange(5), 4)) == [Trial(config, 4).id for config in table]


MILLION = f"batch_size = {list(range(1, 1001))}\nthreads = {list(range(1, 201))}\nworkers = [1, 2, 3, 4, 5]"


def test_of_a_million_trials_only_those_are_made_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    seen = Configurations.__getitem__
    monkeypatch.setattr(Configurations, "__getitem__", lambda table, at: made.append(at) or seen(table, at))
    planned = trials(MILLION, "replicates = 4")
    assert len(planned) == 4_000_000
    assert planned[-1].replicate == 3
    assert len(list(itertools.islice(planned.without({planned[0].id}), 5))) == 5
    assert len(made) < 20


def test_what_is_impossible_is_asked_once_for_each_combination_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("steplab.design.plan.impossible", lambda config: asked.append(config) or "")
    trials('batch_size = [1, 2, 4]\nkernel_size = [3, 5]\npadding = ["same", "valid"]\nactivation = ["tanh", "relu"]')
    assert len(asked) == 4


@given(
    st.sampled_from(["linear", "log"]),
    st.one_of(
        st.tuples(st.integers(1, 99), st.integers(100, 9999)), st.tuples(st.floats(1e-9, 0.9), st.floats(1, 1e9))
    ),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1),
)
def test_a_range_gives_the_same_values_as_ever(scale: str, ends: tuple[float, float], positions: list[float]) -> None:
    low, high = ends
    column = sampling.column_at(Range(low=low, high=high, scale=scale), np.array(positions))

    def value(u: float) -> float:
        span = 1 if isinstance(low, int) else 0
        if scale == "log":
            exact = math.exp(math.log(low) + u * (math.log(high + span) - math.log(low)))
        else:
            exact = low + u * (high + span - low)
        return min(int(exact), high) if span else exact

    assert [column.levels[code] for code in column.codes] == [value(u) for u in positions]


def test_a_draw_whose_configurations_are_equal_in_part_says_how_many_are_planned() -> None:
    text = (
        '[study]\nname = "s"\n[factors]\nframework = "synthetic"\nnetwork = ["lenet5", "mlp"]\n'
        'filters = { low = 4, high = 64 }\nbatch_size = [8, 16]\n[design]\ntype = "random"\nn = 100\n'
    )
    drawn = plan(parse_study(text, Path("s.toml")))
    assert len(drawn.configurations) < 100
    assert f"100 different configurations were asked for, {len(drawn.configurations)} are planned" in drawn.note


def test_trials_of_a_factor_that_is_dear_to_change_run_together_in_an_order_of_each_block() -> None:
    planned = trials(
        "workers = [1, 2, 3, 4]\nbatch_size = [1, 2, 4, 8, 16]", 'together = ["workers"]\nreplicates = 12\nseed = 2'
    )
    blocks = [planned[start : start + 20] for start in range(0, len(planned), 20)]
    plots = [[trial.config["workers"] for trial in block[::5]] for block in blocks]
    for block, plot in zip(blocks, plots, strict=True):
        assert [trial.config["workers"] for trial in block] == list(itertools.chain(*([w] * 5 for w in plot)))
        assert len({trial.id for trial in block}) == 20
    assert all(sorted(plot) == [1, 2, 3, 4] for plot in plots)
    assert len({tuple(plot) for plot in plots}) > 6
    within = {tuple(trial.config["batch_size"] for trial in block[:5]) for block in blocks}
    assert len(within) > 6


def test_a_large_plot_comes_first_no_more_often_than_a_small_one() -> None:
    rule = "[[exclude]]\nworkers = 1\nbatch_size = [2, 3, 4, 5, 6, 7, 8, 9]"
    planned = trials(
        "workers = [1, 2]\nbatch_size = [1, 2, 3, 4, 5, 6, 7, 8, 9]", 'together = ["workers"]\nreplicates = 400', rule
    )
    first = Counter(planned[start].config["workers"] for start in range(0, len(planned), 10))
    assert 150 < first[1] < 250  # five standard deviations of a fair coin; in a plain shuffle it would be 40


@pytest.mark.parametrize(
    ("design", "what"),
    [
        ('together = ["worker"]', "'worker' is not a factor of this study"),
        ('together = ["workers"]\norder = "given"', "together goes with order 'random'"),
        ('together = ["workers"]\ntype = "adaptive"\ntrials = 9', "together goes with order 'random'"),
    ],
)
def test_what_cannot_run_together_is_a_sentence(design: str, what: str) -> None:
    with pytest.raises(StudyError, match=what):
        trials("workers = [1, 2]", design)
