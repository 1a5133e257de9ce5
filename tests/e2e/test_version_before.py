"""Records, models and study files of the version before the redesign are read as they were then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steplab.core.record import Record
from steplab.design.plan import plan
from steplab.models import model_from_document
from steplab.store import records, tables
from steplab.store.paths import StudyFolder
from steplab.study.file import read_study

BEFORE = Path(__file__).parents[1] / "data" / "before"
PLANS = json.loads((BEFORE / "studies" / "plans.json").read_text())
PREDICTED = json.loads((BEFORE / "models" / "predictions.json").read_text())
RUNS = sorted(folder.name for folder in (BEFORE / "folders").iterdir())
TABLES = sorted(f"{path.parent.name}/{path.stem}" for path in (BEFORE / "tables").glob("*/*.csv"))


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    """A place for a copy: reading the tables of a study keeps a cache beside its records."""
    return StudyFolder(tmp_path / "study")


def copied(run: str, folder: StudyFolder) -> StudyFolder:
    shutil.copytree(BEFORE / "folders" / run, folder.root)
    return folder


def read_records(run: str) -> list[Record]:
    return list(records.all_records(StudyFolder(BEFORE / "folders" / run)))


@pytest.mark.parametrize("run", RUNS)
def test_every_record_is_read(run: str) -> None:
    files = list((BEFORE / "folders" / run / "records").iterdir())
    assert sorted(record.trial for record in read_records(run)) == sorted(file.stem for file in files)


@pytest.mark.parametrize("run", RUNS)
def test_the_study_beside_the_records_is_read_and_plans_them(run: str, folder: StudyFolder) -> None:
    study = read_study(copied(run, folder).root / "study.toml")
    if study.imported is None:
        assert {trial.id for trial in plan(study)} == {record.trial for record in read_records(run)}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_rows_that_it_had(name: str, folder: StudyFolder, tmp_path: Path) -> None:
    """Columns may have been added since; none is missing, and none says anything else."""
    run, table = name.split("/")
    read = tables.load(copied(run, folder).root)
    assert read.unreadable == ()
    read.table(table).to_pandas().to_csv(tmp_path / "now.csv", index=False)
    then = pd.read_csv(BEFORE / "tables" / f"{name}.csv")
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "now.csv")[list(then.columns)], then, check_dtype=False, rtol=1e-12
    )


@pytest.mark.parametrize("name", sorted(PLANS))
def test_a_study_file_plans_the_trials_that_it_planned(name: str) -> None:
    assert [trial.id for trial in plan(read_study(BEFORE / "studies" / f"{name}.toml"))] == PLANS[name]


@pytest.mark.parametrize("label", sorted(PREDICTED))
def test_a_saved_model_predicts_what_it_predicted(label: str) -> None:
    model = model_from_document(json.loads((BEFORE / "models" / f"{label}.json").read_text()))
    at, then = pd.read_csv(BEFORE / "models" / "at.csv"), PREDICTED[label]
    low, high = model.predict_interval(at)
    for now, key in ((model.predict(at), "value"), (low, "low"), (high, "high")):
        np.testing.assert_allclose(now, then[key], rtol=1e-9)
    assert [list(factors) for factors in model.inside(at).outside] == then["outside"]


@pytest.mark.parametrize("label", sorted(PREDICTED))
def test_a_saved_model_has_the_parameters_that_it_had(label: str) -> None:
    model = model_from_document(json.loads((BEFORE / "models" / f"{label}.json").read_text()))
    now = {parameter.name: parameter.value for parameter in model.parameters()}
    assert now == pytest.approx(dict(PREDICTED[label]["parameters"]), rel=1e-9)


def test_all_kinds_of_trials_and_endings_are_among_the_records() -> None:
    every = [record for run in RUNS for record in read_records(run)]
    assert {record.kind for record in every} == {"step", "train", "infer"}
    assert {record.status for record in every} >= {"ok", "failed", "unsupported"}
    assert {len(record.ranks) for record in every if record.config.get("framework") == "torch"} == {1, 2}
