"""The studies of every source, cut down to a moment, in their real frameworks: they run and fill the page."""

from __future__ import annotations

import os
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


IN_A_BOX = """\
[study]
name = "resattnet3d-laptop"
[factors]
framework = ["synthetic"]
workers = [2]
placement = ["net:{net}"]
rate = ["1gbit"]
[design]
replicates = 1
[measure]
iterations = 3
warmup = 1
"""


def test_hosts_in_a_box_are_made_for_a_study_and_end_with_it(tmp_path: Path) -> None:
    net = f"r{os.getpid()}"  # beside other tests' nets
    (tmp_path / "resattnet3d-laptop.toml").write_text(IN_A_BOX.format(net=net))
    done = steplab.reproduce(["resattnet3d"], out=tmp_path / "runs", studies=tmp_path, pages=None)
    assert [study.ok for study in done.runs[0].studies] == [1], done.document()
    (trial,) = steplab.open(tmp_path / "runs" / "resattnet3d-laptop").trials.to_dict("records")
    assert trial["rank_hosts"] == f"{net}-1,{net}-2"
    assert net not in {known.name for known in steplab.nets()}


@pytest.mark.framework("torch")
def test_a_finished_source_is_not_run_again(tmp_path: Path) -> None:
    def records() -> list[tuple[str, float]]:
        return [(path.name, path.stat().st_mtime) for path in (tmp_path / "inference-engines-smoke/records").iterdir()]

    steplab.reproduce(["inference-engines"], "smoke", out=tmp_path, studies=ROOT / "studies", pages=None)
    before = records()
    again = steplab.reproduce(["inference-engines"], "smoke", out=tmp_path, studies=ROOT / "studies", pages=None)
    assert records() == before
    assert again.runs[0].left == 0
