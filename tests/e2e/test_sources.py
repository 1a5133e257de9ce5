"""The studies of every source, cut down to a moment, in their real frameworks: they run and fill the page."""

from __future__ import annotations

from pathlib import Path

import pytest

import steplab
from steplab.api.reproduction.summaries import published_tables, read_summary
from steplab.sources import load_source, source_names
from steplab.sources.page import filled

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "sources"


@pytest.mark.framework("torch")
@pytest.mark.parametrize("name", source_names())
def test_a_source_runs_from_its_studies_to_its_page(name: str, tmp_path: Path) -> None:
    done = steplab.reproduce([name], "smoke", out=tmp_path, studies=ROOT / "studies", pages=None)
    (run,) = done.runs
    source = load_source(name)
    assert [(study.ok, study.left) for study in run.studies] == [(1, 0)] * len(source.studies), done.document()
    # One trial tells nothing, and the claims know it.
    assert {claim.verdict for claim in run.claims} == {"not decidable here"}
    summary = read_summary(tmp_path / "data" / name / "smoke")
    text = filled((PAGES / f"{name}.md").read_text(), source, {"laptop": summary}, published_tables(PAGES / "data"))
    assert f"{len(source.studies)} trials measured, 0 failed" in text
    assert (PAGES / f"{name}.md").read_text() != text


@pytest.mark.framework("torch")
def test_a_finished_source_is_not_run_again(tmp_path: Path) -> None:
    def records() -> list[tuple[str, float]]:
        return [(path.name, path.stat().st_mtime) for path in (tmp_path / "inference-engines-smoke/records").iterdir()]

    steplab.reproduce(["inference-engines"], "smoke", out=tmp_path, studies=ROOT / "studies", pages=None)
    before = records()
    again = steplab.reproduce(["inference-engines"], "smoke", out=tmp_path, studies=ROOT / "studies", pages=None)
    assert records() == before
    assert again.runs[0].left == 0
