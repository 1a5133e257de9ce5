"""Factors that were not varied independently are named, and nothing is claimed of them alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.confounded_factors import independence
from steplab.analysis.jointly_confounded import jointly_confounded
from steplab.analysis.sentences import sentences
from steplab.analysis.study import Analysis, analyse

STUDIES = 60
# Words and numbers of two levels, so that a table of ones and zeros tells what can be told.
LEVELS: dict[str, list[Any]] = {
    "framework": ["jax", "torch"], "network": ["lenet5", "mlp", "resnet18"], "batch_size": [16, 64],
    "strategy": ["accumulate:2", "sync"], "precision": ["bfloat16", "float32"], "threads": [1, 2],
}  # fmt: skip


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


def test_three_factors_are_confounded_together_although_no_two_are() -> None:
    cells = [
        {"framework": "torch", "batch_size": 8, "threads": 1},
        {"framework": "jax", "batch_size": 8, "threads": 2},
        {"framework": "torch", "batch_size": 64, "threads": 2},
    ]
    told = independence(cells, list(cells[0]))
    assert told.confounded == ()
    assert told.sentences == [
        "framework, batch_size and threads were not varied independently (none of them changes alone in the 3 "
        "configurations): what differs between these may be any one's doing."
    ]
    assert not told.compares("threads", 1, 2) and not told.tells("framework")


def test_levels_that_can_be_compared_all_the_same_are_set_apart() -> None:
    cells = [
        {"optimizer": "sgd", "strategy": "sync", "workers": 1},
        {"optimizer": "sgd", "strategy": "sync", "workers": 2},
        {"optimizer": "adam", "strategy": "sync", "workers": 4},
        {"optimizer": "adam", "strategy": "accumulate:2", "workers": 1},
    ]
    told = independence(cells, list(cells[0]))
    assert "optimizer, strategy and workers (1, 2 against 4) were not varied independently" in told.sentences[0]
    assert told.compares("workers", 1, 2) and not told.compares("workers", 1, 4)


def test_three_numbers_with_one_product_are_confounded() -> None:
    cells = [
        {"workers": workers, "accumulate": several, "batch_size": 64 // (workers * several)}
        for workers, several in product((1, 2, 4), (1, 2, 4))
    ]
    assert independence(cells, list(cells[0])).confounded_names == ("workers", "accumulate", "batch_size")


def _simulated(seed: int) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """A few configurations of three to five factors, of which one makes steps twice as long."""
    rng = np.random.default_rng(seed)
    names = sorted(rng.choice(sorted(LEVELS), int(rng.integers(3, 6)), replace=False))
    cells = grid(**{name: LEVELS[name] for name in names})
    picked = rng.choice(len(cells), min(len(cells), int(rng.integers(3, 10))), replace=False)
    kept, cause = [cells[at] for at in picked], str(rng.choice(names))
    rows = [
        {"workers": 1, "batch_size": 16, **cell, "replicate": replicate, "status": "ok", "reason": "", "spread": 0.01,
         "t_iter": 0.01 * (2 if cell[cause] == LEVELS[cause][0] else 1) * float(np.exp(0.01 * rng.standard_normal()))}
        for replicate in range(3) for cell in kept
    ]  # fmt: skip
    frame = pd.DataFrame(rows).assign(drift=0.0, seconds=1.0, lif=1.0, cpus=4, ranks_per_host=1)
    frame["throughput"] = frame["batch_size"] / frame["t_iter"]
    frame["trial"], frame["started"] = frame.index.map("{:04d}".format), frame.index.astype(float)
    frame[["t_iter_low", "t_iter_high"]] = frame[["t_iter"]].to_numpy() * [0.99, 1.01]
    frame["t_iter_phased"] = frame["t_iter"]
    frame[["t_io", "t_h2d", "t_md", "t_f", "t_b", "t_c", "t_u", "t_other", "t_wait", "t_move"]] = 0.0
    return kept, frame


def _told_apart(cells: list[dict[str, Any]], names: list[str]) -> dict[tuple[str, Any, Any], bool]:
    """Whether the difference of two levels is estimable: a row of it adds nothing to the rank of ones and zeros."""
    columns = [(name, level) for name in names for level in sorted({cell[name] for cell in cells})]
    table = np.array([[1.0, *(float(cell[name] == level) for name, level in columns)] for cell in cells])
    rank = np.linalg.matrix_rank(table)
    pairs = {}
    for (name, level), (other, reference) in product(columns, columns):
        if name == other and level != reference:
            row = [0.0, *(float(c == (name, level)) - float(c == (name, reference)) for c in columns)]
            pairs[name, level, reference] = np.linalg.matrix_rank(np.vstack([table, row])) == rank
    return pairs


@pytest.fixture(scope="module")
def studies() -> list[tuple[dict[tuple[str, Any, Any], bool], Analysis]]:
    """Simulated studies, analysed, with what their configurations can tell."""
    pairs = []
    for cells, frame in map(_simulated, range(STUDIES)):
        found = analyse(frame, list(LEVELS))
        pairs.append((_told_apart(cells, [name for name in found.varied if name in cells[0]]), found))
    return pairs


def test_an_answer_tells_no_effect_that_its_configurations_cannot_tell(
    studies: list[tuple[dict[tuple[str, Any, Any], bool], Analysis]],
) -> None:
    wrong = [
        (at, effect.factor, effect.level, effect.reference)
        for at, (told, found) in enumerate(studies)
        for effect in found.effects
        if not told[effect.factor, effect.level, effect.reference]
    ]
    assert wrong == []


def test_an_answer_names_what_cannot_be_told_apart_and_nothing_else(
    studies: list[tuple[dict[tuple[str, Any, Any], bool], Analysis]],
) -> None:
    several = 0
    for told, found in studies:
        text = " ".join(map(str, sentences(found)))
        named = {name for name in LEVELS for part in text.split(". ") if "not varied independ" in part and name in part}
        assert named == {name for (name, *_), known in told.items() if not known}, text
        several += bool(found.independence.joint)
        if set(named) >= {name for name, *_ in told}:
            assert "strongest single effect" not in text and "No factor alone" not in text
    assert several >= 15  # the studies ask the question


def test_levels_that_are_one_number_to_the_machine_are_no_fault() -> None:
    grid = product([1, 2], [1, 2], [1, 2])
    rows = [{"a": a, "b": b, "c": c, "d": 10**17 + i} for i, (a, b, c) in enumerate(grid)]
    assert jointly_confounded(rows, ["a", "b", "c", "d"], ["d"]) == ()
