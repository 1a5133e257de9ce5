"""Figures as files: Chromium draws them all at once, and its absence is one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_figures_and_latex_are_written(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    assert steplab("run", study_file(workers=[1, 2]), "--out", "out").code == 0
    said = steplab("report", "out", "--figures", "figures", "--models", "linear", "--json")
    assert said.code == 0, said.err
    made = {path.name: path for path in map(Path, said.json["figures"])}
    folder = Path(said.json["report"]).parents[1] / "figures"
    assert {"speed-up.svg", "speed-up.png", "phases.svg", "configurations.tex", "trials.tex"} <= set(made)
    assert (folder / "speed-up.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "speed-up.svg").read_text().startswith("<svg")
    assert "workers" in (folder / "speed-up.svg").read_text()


def test_without_a_browser_the_sentence_says_what_to_install(
    steplab: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path
) -> None:
    assert steplab("run", study_file(), "--out", "out").code == 0
    said = steplab("report", "out", "--figures", "figures", env={"PATH": os.fspath(tmp_path)})
    assert said.code == 1
    assert "apt install chromium" in said.err
    assert not (tmp_path / "out" / "report.html").exists()


def test_a_wrong_model_is_named_before_anything_is_fitted(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    assert steplab("run", study_file(), "--out", "out").code == 0
    said = steplab("report", "out", "--models", "genric")
    assert said.code == 1
    assert "did you mean 'generic'" in said.err
