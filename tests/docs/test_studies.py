"""The ready studies are right: they are read, planned, and nothing in them is unsupported by all frameworks."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplab.design.plan import plan
from steplab.study.file import read_study

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_ready_study_can_be_planned(path: Path) -> None:
    study = read_study(path)
    assert study.about.name == path.stem
    assert study.about.description
    trials = plan(study)
    assert trials
    refused = {study.kind.unsupported(trial.resolved) for trial in trials} - {""}
    assert not refused


def test_the_standard_factorial_has_its_180_runs() -> None:
    (path,) = (path for path in STUDIES if path.stem == "tf-sync-vs-accumulate-full")
    assert len(plan(read_study(path))) == 180
