"""The report: self-contained, complete, and safe with hostile names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab.api.results import report_data as reading
from steplab.api.results.report_data import fitter, report_data
from steplab.api.results.results import Results
from steplab.report.html import content, render
from steplab.report.tables import failures, unsupported


def test_a_report_needs_no_network(
    steplab: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path
) -> None:
    assert steplab("run", study_file(workers=[1, 2], noise=0.05), "--out", "out").code == 0
    assert steplab("report", "out").code == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "default-src 'none'" in page
    assert "<link" not in page
    assert "<script src" not in page
    assert all(title in page for title in ("Step time", "Where the time goes", "Speed-up", "All configurations"))
    assert "workers=2" in page


def test_a_large_study_has_its_models_fitted_beside(
    steplab: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    no_orphans: Callable[[], None],
) -> None:  # fmt: skip
    path = study_file(batch_size=[8, 16, 32, 64], workers=[1, 2, 3, 4], noise=0.05)
    assert steplab("run", path, "--out", "out").code == 0
    here = report_data(Results(tmp_path / "out")).models
    monkeypatch.setattr(reading, "FOR_A_PROCESS", 10)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with fitter(tmp_path / "out") as beside:
        assert beside is not None
        there = report_data(Results(tmp_path / "out"), beside=beside).models
    assert [(one.name, one.mape, one.formula) for one in there.judged] == [
        (one.name, one.mape, one.formula) for one in here.judged
    ]
    assert [one.name for one in there.forecasts] == [one.name for one in here.forecasts] != []


def test_a_study_with_only_failures_has_a_report(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    assert steplab("run", study_file(fault=["raise"], measure="retries = 0"), "--out", "out").code == 3
    said = steplab("report", "out", "--out", "page.html", "--json")
    assert said.code == 0
    text = Path(said.json["report"]).read_text()
    assert "No trial of this study has been measured." in text
    assert "a rehearsed fault" in text


def test_unsupported_trials_have_a_table_of_their_own(
    steplab: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path
) -> None:
    path = study_file(strategy=["sync", "ps-sync"], fault=["none", "raise"], measure="retries = 0")
    assert steplab("run", path, "--out", "out").code == 3
    data = report_data(Results(tmp_path / "out"))
    assert (data.analysis.failed, data.analysis.unsupported) == (2, 4)
    assert [len(table(data).rows) for table in (failures, unsupported)] == [2, 4]
    page = render(content(data))
    assert "8 trials, 2 failed, 4 unsupported" in page
    assert "Unsupported trials" in page


EVIL = "</script><script>alert(1)</script> ' <img src=x onerror=alert(1)>"


def test_hostile_text_of_a_study_is_shown_not_run(
    steplab: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path
) -> None:
    path = study_file("evil")
    path.write_text(path.read_text().replace("[factors]", f'description = "{EVIL}"\n[factors]'))
    assert steplab("run", path, "--out", "out").code == 0
    assert_harmless(steplab, tmp_path)


def test_hostile_names_and_levels_of_a_table_are_shown_not_run(steplab: Callable[..., Any], tmp_path: Path) -> None:
    rows = [f"{level},{EVIL},{t}" for level in (EVIL, "b") for t in (1.0, 1.1, 1.2)]
    (tmp_path / "evil.csv").write_text("\n".join(["kind,network,t_iter", *rows]) + "\n")
    ran = steplab("import", "csv", "evil.csv", "--factors", "kind,network", "--out", "out")
    assert ran.code == 0, ran.err
    assert_harmless(steplab, tmp_path)


def assert_harmless(steplab: Callable[..., Any], folder: Path) -> None:
    assert steplab("report", "out", "--out", "page.html").code == 0
    page = (folder / "page.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page


def test_a_folder_whose_name_is_not_utf8_is_readable(
    steplab: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path
) -> None:
    assert steplab("run", study_file(), "--out", "n\udcff x").code == 0
    ran = steplab("report", "n\udcff x", "--out", "page.html")
    assert ran.code == 0, ran.err
    assert r"n\xff x" in (tmp_path / "page.html").read_text()
