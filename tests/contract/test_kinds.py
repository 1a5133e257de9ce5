"""Contract of every kind of trials, on both sides."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path

import pytest

from steplab import kinds
from steplab.core import catalogue
from steplab.core.measurement import Data, Measure
from steplab.core.resolution import resolve
from steplab.study.file import parse_study
from steplab_worker import kinds as worker_kinds

STUDY = '[study]\nname = "x"\nkind = "{kind}"\n[factors]\nframework = ["synthetic"]\n'


@pytest.mark.parametrize("name", kinds.names())
def test_it_is_named_by_its_file_and_says_what_it_tells(name: str) -> None:
    kind = kinds.named(name)
    assert kind.name == name
    assert kind.summary


@pytest.mark.parametrize("name", kinds.names())
def test_ranks_can_run_it(name: str) -> None:
    assert list(inspect.signature(worker_kinds.module(name).run).parameters) == ["job", "session", "ask", "rank"]


@pytest.mark.parametrize("name", kinds.names())
def test_some_framework_has_it(name: str) -> None:
    assert any(kinds.named(name).ability in catalogue.framework(one).kinds for one in catalogue.framework_names())


@pytest.mark.parametrize("name", kinds.names())
def test_its_starter_is_its_section_and_has_right_values(name: str) -> None:
    kind = kinds.named(name)
    written = tomllib.loads(kind.starter)
    assert list(written) == ([name] if kind.has_section() else [])
    kind.fields.model_validate(written.get(name, {}))
    assert kind.free <= set(kind.fields.model_fields)


@pytest.mark.parametrize("name", kinds.names())
def test_a_study_of_it_needs_nothing_more(name: str, tmp_path: Path) -> None:
    kind, resolved = parse_study(STUDY.format(kind=name), Path("study.toml")).kind, resolve({"framework": "synthetic"})
    assert type(kind) is kinds.named(name)
    assert kind.unsupported(resolved) == ""
    assert kind.iterations(resolved) > 0
    assert kind.deadlines >= 1
    assert all(isinstance(value, bool | int | float | str) for value in kind.job_part(resolved, 100, tmp_path).values())
    findings = kind.director(resolved, lambda news: None).findings()
    assert (findings.notes, findings.epochs) == ((), ())


def test_kinds_add_columns_and_tables_of_different_names() -> None:
    for names in (
        [n for kind in kinds.every() for n in kind.columns],
        [n for kind in kinds.every() for n in kind.tables],
    ):
        assert len(names) == len(set(names))


def test_only_kinds_that_learn_can_share_a_period() -> None:
    shared = {name: kinds.named(name).shares_period("sync") for name in kinds.names()}
    assert shared == {name: kinds.named(name).learns for name in kinds.names()}
    assert not any(kinds.named(name).shares_period("ps-async") for name in kinds.names())


def test_a_guess_counts_the_epochs_of_a_training() -> None:
    train = kinds.named("train")
    kind = train(Measure(), Data(samples=640), train.fields.model_validate({"epochs": 3}))
    assert kind.iterations(resolve({"batch_size": 32, "workers": 2})) == 3 * 10
