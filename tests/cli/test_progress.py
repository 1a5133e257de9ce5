"""The progress of `steplab run` as a person sees it on a terminal of 80 columns, and what it says to do next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steplab as library

LONG = {"learning_rate": [0.0125], "optimizer": ["momentum"], "augment": ["none"], "batch_size": [8, 16],
        "imbalance": [0.0, 0.25], "latency_s": [0.00125, 0.01]}  # fmt: skip


def test_bar_count_and_time_left_are_always_on_the_line(
    on_terminal: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    shown = on_terminal("run", study_file(**LONG), "--out", "out")
    assert shown.code == 0
    bars = [line for line in shown.lines if "/16" in line]
    assert len(bars) > 10
    assert all(len(line.rstrip()) <= 80 for line in bars)
    assert all(" left" in line or "16/16" in line for line in bars)
    assert any("batch_size 16" in line for line in bars)
    assert not any("momentum" in line for line in bars)  # it is the same in all trials


def test_after_a_stop_the_next_step_is_to_go_on(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    path = study_file(batch_size=[1, 2]).rename(Path(study_file().parent) / "my study.toml")
    ran = steplab("run", path, "--out", "my run", "--limit", "1")
    assert f"next: steplab run '{path}' --out 'my run'" in ran.err
    assert "next: steplab analyze 'my run'" in steplab("run", path, "--out", "my run").err


def test_a_dry_run_says_that_an_environment_is_missing(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    home = {"STEPLAB_HOME": str(tmp_path / "empty")}
    ran = steplab("run", study_file(framework=["torch", "synthetic"]), "--dry-run", env=home)
    assert (ran.code, ran.out.count("steplab env create torch")) == (0, 1)


def test_a_changed_protocol_is_named_by_its_fields(
    steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    assert steplab("run", study_file(), "--out", "out").code == 0
    path = study_file()
    path.write_text(path.read_text().replace("iterations = 8", "iterations = 9"))
    ran = steplab("run", path, "--out", "out")
    assert (ran.code, "[measure] iterations was 8 and is 9" in ran.err) == (1, True)
    assert "warmup" not in ran.err


def test_an_interrupted_run_says_how_to_go_on(
    in_process: Callable[..., Any], study_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(library, "run_plan", interrupted)
    path = study_file()
    ran = in_process("run", path, "--out", "out")
    assert (ran.code, f"next: steplab run {path} --out out" in ran.err) == (130, True)
