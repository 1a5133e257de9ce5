"""Factors that were not varied independently are named, and nothing is claimed of them alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from steplab.analysis.confounded_factors import independence


def grid(**levels: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(levels, own, strict=True)) for own in product(*levels.values())]


def test_levels_that_share_none_of_another_factor_are_confounded() -> None:
    cells = [*grid(framework=["a"], batch_size=[8]), *grid(framework=["b"], batch_size=[16, 32])]
    told = independence(cells, ["framework", "batch_size"])
    assert told.sentences == [
        "framework and batch_size were not varied independently (framework a with batch_size 8 only; framework b with "
        "batch_size 16, 32 only): what differs between these may be either one's doing."
    ]
    assert not told.compares("framework", "a", "b")
    assert told.compares("batch_size", 16, 32)
    assert told.compares("workers", 1, 2)


def test_a_level_with_one_level_of_another_is_a_gap() -> None:
    cells = [*grid(framework=["a"], batch_size=[8]), *grid(framework=["b", "c"], batch_size=[8, 16])]
    told = independence(cells, ["framework", "batch_size"])
    assert told.confounded == ()
    assert told.sentences == [
        "Not every combination was measured (framework a only with batch_size 8): averages compare such levels there "
        "alone."
    ]


@pytest.mark.parametrize(
    "cells",
    [
        grid(framework=["a", "b"], batch_size=[8, 16], workers=[1, 2]),
        grid(framework=["a"], batch_size=[8], workers=[1, 2]),  # what does not vary is confounded with nothing
        [{"framework": "ab"[n % 2], "batch_size": 8 * n} for n in range(1, 9)],  # drawn: each number once, overlapping
        [{"framework": "ab"[n > 15], "batch_size": n} for n in range(30)],  # a slope
        [{"batch_size": 8 * n, "workers": n % 3} for n in range(1, 9)],
        [],
    ],
)
def test_designs_without_a_problem_are_not_complained_of(cells: list[dict[str, Any]]) -> None:
    assert independence(cells, ["framework", "batch_size", "workers"]).sentences == []


def test_the_answer_claims_no_effect_of_a_confounded_factor(
    steplab: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["framework,batch_size,workers,replicate,t_iter"]
    for framework, batch in (("torch", 8), ("jax", 64)):
        for workers, replicate in product((1, 2), range(3)):
            lines.append(f"{framework},{batch},{workers},{replicate},{batch * 1e-3 * (1 + 0.01 * replicate)}")
    (tmp_path / "times.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    assert steplab("import", "csv", "times.csv", "--out", "out").code == 0
    told = " ".join(steplab("analyze", "out", env={"COLUMNS": "80"}).out.split())
    assert "framework and batch_size were not varied independently" in told
    assert "strongest single effect" not in told
    assert "No factor alone has an effect" not in told
    effects = steplab("analyze", "out", "--json").json["effects"]
    assert {effect["factor"] for effect in effects} <= {"workers"}
