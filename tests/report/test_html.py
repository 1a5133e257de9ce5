"""The report: self-contained, complete, and safe with hostile names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


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


def test_a_study_with_only_failures_has_a_report(steplab: Callable[..., Any], study_file: Callable[..., Path]) -> None:
    assert steplab("run", study_file(fault=["raise"], measure="retries = 0"), "--out", "out").code == 3
    said = steplab("report", "out", "--out", "page.html", "--json")
    assert said.code == 0
    text = Path(said.json["report"]).read_text()
    assert "No trial of this study has been measured." in text
    assert "a rehearsed fault" in text


def test_hostile_text_is_shown_not_run(steplab: Callable[..., Any], tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script> \\\" ' <img src=x onerror=alert(1)>"
    (tmp_path / "evil.toml").write_text(
        f'[study]\nname = "evil"\ndescription = "{evil}"\n[factors]\nframework = ["synthetic"]\n'
        f'environment = ["", "{evil}"]\n[design]\nreplicates = 1\n[measure]\niterations = 3\nwarmup = 0\n'
    )
    assert steplab("run", "evil.toml").code == 0
    assert steplab("report", "runs/evil", "--out", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
