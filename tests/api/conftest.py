"""A small study, run once for all tests of the API; each test gets a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import steplab

STUDY = """\
[study]
name = "demo"
description = "A rehearsal"
[factors]
framework = ["synthetic"]
batch_size = [8, 16, 32, 64]
workers = [1, 2]
noise = 0.03
[design]
replicates = 2
[measure]
iterations = 8
warmup = 2
"""


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a synthetic study that was run from Python."""
    room = tmp_path_factory.mktemp("shelf")
    (room / "study.toml").write_text(STUDY)
    return steplab.run(room / "study.toml", room / "demo").folder


@pytest.fixture
def folder(shelf: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(shelf, tmp_path / "demo"))


@pytest.fixture
def study_toml(tmp_path: Path) -> Path:
    """The study file."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path
