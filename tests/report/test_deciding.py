"""Decisions in the report: a picture of workers that pay, a table that says why each trial was chosen."""

from __future__ import annotations

from pathlib import Path

import steplab
from steplab.report.charts import deciding
from steplab.report.data import ReportData
from steplab.report.tables import choices

TEXT = """
[study]
name = "adapt"
[factors]
framework = ["synthetic"]
batch_size = [8, 32, 128]
workers = [1, 2, 3, 4]
contention = [0.1]
noise = [0.02]
[design]
type = "adaptive"
trials = 16
start = 6
tolerance = 0.0001
[measure]
iterations = 5
warmup = 1
phases = false
"""


def test_the_page_tells_why_each_trial_and_how_many_workers_pay(tmp_path: Path) -> None:
    (tmp_path / "adapt.toml").write_text(TEXT)
    results = steplab.run(tmp_path / "adapt.toml", tmp_path / "out")
    from steplab.api.results.report_data import report_data

    data: ReportData = report_data(results, ["linear"])
    rows = choices(data).rows
    assert len(rows) == 16 and all(row[2] for row in rows) and data.planned.ended.startswith("ended")
    narrowing, workers = deciding.narrowing(data), deciding.workers(data)
    assert narrowing is not None and workers is not None
    assert len(narrowing.figure.data[0].x) == len(data.planned.doubts) >= 2
    assert list(workers.figure.data[1].x) == [1, 2, 3, 4]
    assert data.notes["workers-worth"][0].startswith(data.planned.workers.why)
    page = results.report(tmp_path / "page.html", models=["linear"]).path.read_text()
    assert "Why these trials" in page and "How many workers pay" in page
