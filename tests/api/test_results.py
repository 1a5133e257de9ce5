"""An opened study: tables, findings, models, predictions."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import steplab


def test_the_tables_are_pandas(folder: Path) -> None:
    study = steplab.open(str(folder))
    assert (len(study.trials), study.study.about.name) == (16, "demo")
    assert {"t_iter", "batch_size"} <= set(study.trials.columns)
    assert {"trial", "rank", "t_iter"} <= set(study.iterations.columns)
    assert all(isinstance(table, pd.DataFrame) for table in (study.layers, study.epochs))


def test_a_changed_table_changes_no_finding(folder: Path) -> None:
    study = steplab.open(folder)
    before = study.analyze().document()["groups"]
    study.trials["t_iter"] = 0.0
    assert study.analyze().document()["groups"] == before


def test_findings_answer_first_and_are_a_table(folder: Path) -> None:
    findings = steplab.open(folder).analyze()
    assert findings.sentences[0].startswith("The highest throughput is")
    assert len(findings.configurations) == 8
    assert list(findings.configurations["throughput"]) == sorted(findings.configurations["throughput"], reverse=True)


def test_findings_draw_the_charts_of_the_report(folder: Path) -> None:
    findings = steplab.open(folder).analyze()
    assert {"step-time", "speed-up"} <= set(findings.figures)
    assert findings.figure("step-time").data


def test_a_model_is_fitted_saved_and_read_again(folder: Path, tmp_path: Path) -> None:
    model = steplab.open(folder).fit("linear")
    assert model.train is not None
    assert model.formula is not None
    again = steplab.load_model(model.save(tmp_path / "model.json"))
    assert (again.formula, again.train) == (model.formula, None)
    assert again.predict(again.example)[0] == model.predict(model.example)[0]


def test_a_prediction_outside_of_the_range_says_so(folder: Path) -> None:
    predicted = steplab.open(folder).predict([{"batch_size": 16, "workers": 2}, "batch_size=16,workers=9"], "linear")
    assert [row.inside for row in predicted] == [True, False]
    assert predicted[1].outside == ("workers",)
    assert list(predicted.frame["inside"]) == [True, False]


def test_a_table_of_configurations_is_predicted_row_by_row(folder: Path) -> None:
    model = steplab.open(folder).fit("linear")
    table = pd.DataFrame({"Batch Size": [8, 16], "workers": [1, 2]})
    assert len(model.predict(table)) == 2


@pytest.mark.parametrize("roles", ["workers", ["workers"]])
def test_a_text_is_one_column(roles: str | list[str]) -> None:
    rows = pd.DataFrame({"workers": [1, 2, 4, 8] * 2, "other": range(8), "t_iter": [1.0, 2.0, 4.0, 8.0] * 2})
    assert steplab.fit(rows, "linear", extrinsic=roles).estimator.roles_.columns == ("workers",)


def test_a_table_in_memory_stays_as_it_was() -> None:
    rows = pd.DataFrame({"Workers [n]": ["1", "2", "4", "8"] * 2, "t_iter": [1.0, 2.0, 4.0, 8.0] * 2})
    before = rows.copy()
    model = steplab.fit(rows, "linear")
    pd.testing.assert_frame_equal(rows, before)
    assert any("'Workers [n]' is read as 'workers'" in note for note in model.notes)


def test_the_best_of_compared_models_can_be_fitted(folder: Path) -> None:
    study = steplab.open(folder)
    compared = study.compare(["linear", "quadratic"])
    assert compared.best in ("linear", "quadratic")
    assert list(compared.frame["model"]) == [row.model for row in compared.rows]
    assert study.fit(compared.best).name == compared.best


def test_an_import_is_opened_like_any_study(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("batch_size,workers,total [ms]\n" + "".join(f"{b},1,{b}\n" for b in (8, 16, 32)))
    imported = steplab.import_csv(tmp_path / "t.csv", tmp_path / "out", columns={"t_iter": "total"})
    assert list(imported.open().trials["t_iter"]) == [0.008, 0.016, 0.032]
