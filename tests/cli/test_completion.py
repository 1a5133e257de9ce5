"""What a shell offers for half a word, and what is said of a mistyped one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from steplab.cli._completion import TABLES, complete_models, section_names
from steplab.cli._sections import SECTIONS
from steplab.store.tables import Tables


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("anal", "analyze"),
        ("analyze runs --section scaling,ef", "scaling,effects"),
        ("fit rows.csv --model quad", "quadratic"),
        ("env create chai", "chainer"),
        ("inspect resnet5", "resnet50"),
        ("export runs --table iter", "iterations"),
    ],
)
def test_values_are_completed(program: Callable[..., Any], words: str, offered: str) -> None:
    typed = f"steplab {words}"
    asked = {"_STEPLAB_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    assert offered in program(env={**os.environ, **asked}).out.split()


def test_the_lists_are_those_of_the_program() -> None:
    assert section_names() == tuple(SECTIONS)
    assert (*Tables.names(), "trace") == TABLES
    assert "linear,hybrid" in complete_models("linear,h")


def test_a_mistyped_command_or_option_is_answered_with_the_nearest(program: Callable[..., Any]) -> None:
    ran = program("analyse", "runs")
    assert (ran.code, "Did you mean 'analyze'?" in ran.err) == (2, True)
    ran = program("run", "study.toml", "--dryrun")
    assert (ran.code, "--dry-run" in ran.err) == (2, True)
