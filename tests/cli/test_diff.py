"""`steplab diff`: what changed between two studies, on a screen, as JSON and as an exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def studies(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    """Three studies: the second is like the first, the third has an exchange of 10 ms more."""
    shared = {"batch_size": [8, 16], "workers": [1, 2], "noise": 0.01}
    for name, more in (("before", {}), ("same", {}), ("after", {"latency_s": 0.01, "batch_size": [8, 16, 32]})):
        assert steplab("run", study_file(name, **{**shared, **more}), "--out", name).code == 0


def test_a_slow_down_is_shown_and_fails_only_where_it_is_beyond_doubt(
    studies: None, steplab: Callable[..., Any]
) -> None:
    ran = steplab("diff", "before", "after", "--fail-above", "5%", env={"COLUMNS": "80"})
    assert ran.code == 3
    assert "2 are slower and 0 faster beyond doubt; 2 cannot be told from no change." in ran.out
    assert "(95 % of all: " in " ".join(ran.out.split())  # the interval that decides, not a single one
    assert "2 configurations are in the second study only." in ran.out
    assert "latency_s" in ran.out  # what else differs
    assert all(len(line) <= 80 for line in ran.out.splitlines())
    assert steplab("diff", "before", "after", "--fail-above", "10000%").code == 0
    assert steplab("diff", "before", "after").code == 0


def test_the_document_has_every_configuration(studies: None, steplab: Callable[..., Any]) -> None:
    document = steplab("diff", "before", "after", "--json").json
    assert {row["verdict"] for row in document["rows"] if row["factors"]["workers"] == 2} == {"slower"}
    assert [len(document[name]) for name in ("rows", "only_before", "only_after")] == [4, 0, 2]
    assert document["rows"][0]["low"] > 1 < document["overall"]["ratio"]


def test_a_limit_that_is_none_is_one_sentence(studies: None, steplab: Callable[..., Any]) -> None:
    ran = steplab("diff", "before", "same", "--fail-above", "much")
    assert (ran.code, "write it like 5%" in ran.err) == (1, True)
