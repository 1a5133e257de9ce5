"""`steplab analyze`: readable within 80 columns, complete as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]) -> Path:
    """A synthetic study that loses most to the exchange."""
    path = study_file(workers=[1, 2, 4], batch_size=[8, 16], latency_s=0.01, noise=0.01)
    assert steplab("run", path, "--out", "out").code == 0
    return tmp_path / "out"


def test_text_json_and_sections_agree(folder: Path, steplab: Callable[..., Any]) -> None:
    brief = steplab("analyze", folder, env={"COLUMNS": "80"}).out
    assert "The highest throughput" in brief and "95 % interval" in brief and "S-SGD" not in brief
    text = steplab("analyze", folder, "--all", env={"COLUMNS": "80"}).out
    assert all(len(line) <= 80 for line in text.splitlines())
    for part in ("The highest throughput", "95 % interval", "where a step's time goes", "S-SGD", "Gustafson", "noise:"):
        assert part in text, part
    document = steplab("analyze", folder, "--json").json
    assert {"groups", "effects", "noise", "scaling", "why", "frameworks", "unexplained", "sentences"} <= set(document)
    assert len(document["groups"]) == 6
    assert [len(series["points"]) for series in document["scaling"]] == [3, 3]
    assert {one["causes"][0]["key"] for one in document["why"]} == {"communication"}
    why = steplab("analyze", folder, "--why", env={"COLUMNS": "80"}).out
    assert "The main cause is communication" in why
    assert "× the throughput (predicted, " in why
    assert all(len(line) <= 80 for line in why.splitlines())
    only = steplab("analyze", folder, "--section", "phases,noise").out
    assert "where a step's time goes" in only and "noise:" in only and "Gustafson" not in only


def test_a_section_that_does_not_exist_is_one_sentence(folder: Path, steplab: Callable[..., Any]) -> None:
    ran = steplab("analyze", folder, "--section", "scalin")
    assert ran.code == 1
    assert "did you mean 'scaling'" in ran.err


def test_forty_configurations_of_many_factors_fit_a_screen(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    """At most 60 lines of 80 columns, every shown configuration with all that tells it from others."""
    varied = {"batch_size": [8, 16, 32, 64, 128], "workers": [1, 2], "learning_rate": [0.01, 0.0125],
              "optimizer": ["sgd", "momentum"], "network": ["lenet5"]}  # fmt: skip
    assert steplab("run", study_file(**varied), "--out", "out").code == 0
    ran = steplab("analyze", "out", env={"COLUMNS": "80"})
    lines = [*ran.out.splitlines(), *ran.err.splitlines()]
    assert len(lines) <= 60
    assert all(len(line) <= 80 for line in ran.out.splitlines())
    assert "more (--all shows them)" in ran.out and "--section" in ran.out
    lines = ran.out.splitlines()
    header = next(at for at, line in enumerate(lines) if "t_iter" in line)
    width = lines[header].index("t_iter") - 2
    labels = " ".join(line[:width].strip() for line in lines[header + 2 :])
    assert all(f"128, 2, {rate}, {name}" in labels for rate in ("0.01", "0.0125") for name in ("sgd", "momentum"))
    assert "lenet5" not in labels  # it does not vary


def test_two_numbers_of_workers_make_no_law(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    assert steplab("run", study_file(workers=[1, 2]), "--out", "out").code == 0
    assert "laws of scaling" not in steplab("analyze", "out", "--all").out


def test_layers_are_shown_on_request_and_the_longest_first_where_there_are_many(
    folder: Path, steplab: Callable[..., Any], on_terminal: Callable[..., Any]
) -> None:
    shown = on_terminal("analyze", folder, "--section", "layers")
    assert shown.code == 0
    assert max(len(line) for line in shown.lines if not line.startswith("next:")) <= 80
    names = [line.split()[0] for line in shown.lines if " µs " in line or " ms " in line]
    document = steplab("analyze", folder, "--json").json["layers"]
    assert names == [layer["layer"] for layer in document["layers"]]
    assert document["factors"]["batch_size"] == 16
    assert any("95 % interval" in line for line in shown.lines)


def test_only_sections_with_content_are_offered_and_an_empty_one_says_why(
    folder: Path, steplab: Callable[..., Any]
) -> None:
    offered = next(line for line in steplab("analyze", folder).out.splitlines() if line.startswith("more:"))
    assert "--section phases,layers,scaling,effects,noise," in offered
    told = steplab("analyze", folder, "--section", "accuracy,frameworks").out
    assert 'accuracy: nothing to show: only studies of kind "train" have accuracies.' in told
    assert "frameworks: nothing to show: no two frameworks" in told
    assert "nothing to show" not in steplab("analyze", folder, "--all").out


def test_the_causes_of_a_loss_are_named_by_factors_and_sum_to_it(folder: Path, steplab: Callable[..., Any]) -> None:
    told = steplab("analyze", folder, "--why", env={"COLUMNS": "80"}).out
    assert "workers 4, batch_size 8: With 4 workers a step takes" in " ".join(told.split())
    for answer in steplab("analyze", folder, "--json").json["why"]:
        parts = sum(cause["amount"]["seconds"] for cause in answer["causes"]) + answer["unexplained_s"]
        assert parts == pytest.approx(answer["excess"]["seconds"])
        assert sum(cause["share"] for cause in answer["causes"]) <= 1 + 1e-9
    assert told.count("lost in all") == 4
