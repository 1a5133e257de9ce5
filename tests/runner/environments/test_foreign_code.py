"""What a study and the folder around it can make an interpreter run: only what a person has named."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TRAP = "open({!r}, 'w').close()\nraise SystemExit('a trap')\n"
MODULES = ("numpy", "json", "steplab_worker", "torch", "sitecustomize")


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """The current folder of the commands, full of modules with famous names; where they leave their trace."""
    trace = tmp_path / "sprung"
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(TRAP.format(str(trace)))
    return trace


def test_a_rank_imports_nothing_from_the_current_folder(
    trapped: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    assert steplab("run", study_file(workers=[1, 2]), "--out", "out").code == 0
    assert not trapped.exists()


def test_environments_are_checked_and_added_without_the_current_folder(
    trapped: Path, tmp_path: Path, steplab: Callable[..., Any]
) -> None:
    home = {"STEPLAB_HOME": str(tmp_path / "home"), "PYTHONPATH": ""}
    assert steplab("env", "add", "mine", "--framework", "synthetic", "--python", sys.executable, env=home).code == 0
    assert steplab("env", "check", "mine", env=home).code == 0
    assert not trapped.exists()


@pytest.mark.framework("torch")
def test_inspecting_a_network_of_ones_own_looks_into_the_current_folder_last(
    trapped: Path, tmp_path: Path, steplab: Callable[..., Any]
) -> None:
    (tmp_path / "mine.py").write_text("from torch import nn\ndef make():\n    return nn.Linear(3, 2)\n")
    ran = steplab("inspect", "module:mine:make", "--input", "3", "--json")
    assert ran.json["parameters"] == 8
    assert not trapped.exists()


@pytest.mark.framework("torch")
def test_the_studys_own_folder_is_searched_last_and_said(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]
) -> None:
    """From another folder: the modules beside the study file are found, those with famous names are not preferred."""
    trace, elsewhere = tmp_path / "sprung", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "numpy.py").write_text(TRAP.format(str(trace)))
    (tmp_path / "own_net.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\n"
    )
    study = study_file(framework=["torch"], network=["module:own_net:make"], measure="phases = false")
    ran = steplab("run", study, "--out", "out", "--limit", "1", cwd=elsewhere)
    assert ran.code == 0, ran.err
    assert f"module:own_net:make: the ranks run code from {tmp_path}" in ran.err
    assert not trace.exists()
    from steplab.store import records
    from steplab.store.paths import StudyFolder

    (record,) = records.all_records(StudyFolder(elsewhere / "out"))
    assert record.command.endswith(f"--modules {tmp_path}")
    roofline = steplab("roofline", elsewhere / "out", "--machine", "a100", cwd=elsewhere)
    assert roofline.code == 1
    assert "module:own_net:make: counting a network of one's own runs its code; allow it with --modules" in roofline.err
    assert steplab("roofline", elsewhere / "out", "--machine", "a100", "--modules", tmp_path, cwd=elsewhere).code == 0


@pytest.mark.parametrize("name", ["/tmp/x", "../../x", "..", "a/b", ".hidden", ""])
def test_a_study_names_an_environment_and_no_folder(
    tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path], name: str
) -> None:
    """An executable in a folder of the study's choice must not be started."""
    ran = steplab("run", study_file(framework=["torch"], environment=[name, "other"]), "--dry-run")
    if name:
        assert ran.code == 1
        assert "factors.environment: the level" in ran.err
        assert "must be the name of an environment: letters, digits, dot, dash, underscore" in ran.err
    else:
        assert ran.code == 0, "the framework's own"


def test_commands_refuse_a_path_for_an_environment(steplab: Callable[..., Any]) -> None:
    assert "must be the name of an environment" in steplab("env", "check", "../x").out.replace("\n", " ")
    added = steplab("env", "add", "../x", "--framework", "torch", "--python", sys.executable)
    assert (added.code, "must be the name of an environment" in added.err) == (1, True)
