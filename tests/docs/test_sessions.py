"""The tutorial and the session of the README are typed word by word, in PyTorch; only their studies are shorter."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import commands, files, shorten, typed

ROOT = Path(__file__).parents[2]


@pytest.mark.framework("torch")
def test_the_tutorial_word_by_word_in_an_empty_folder(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    for name, body in files(text):
        (tmp_path / name).write_text(body)
    quick = {"iterations = 20": "iterations = 5\nwarmup = 2", "replicates = 3": "replicates = 2"}
    shorten(tmp_path / "workers.toml", quick)
    output = {line: typed(line, tmp_path) for line in commands(text)}
    assert "12 trials: 6 configurations, 2 replicates" in output["steplab run workers.toml --dry-run"]
    assert "24 ok, 0 failed" in typed("steplab status runs/workers", tmp_path)
    assert "highest throughput" in output["steplab analyze runs/workers"]
    assert "OUTSIDE" in output['steplab predict model.json --at "batch_size=256,workers=2,strategy=sync"']
    assert (tmp_path / "report.html").stat().st_size > 100_000


@pytest.mark.framework("torch")
def test_the_session_of_the_readme(tmp_path: Path) -> None:
    lines = [line for line in commands((ROOT / "README.md").read_text()) if line.startswith("steplab")]
    assert len(lines) >= 9
    quick = {"iterations = 50": "iterations = 5", 'warmup = "auto"': "warmup = 2", "[32, 64, 128]": "[8, 16, 32]",
             "replicates = 3": "replicates = 2"}  # fmt: skip
    for line in lines:
        typed(line, tmp_path)
        if line.startswith("steplab init my-study"):
            shorten(tmp_path / "my-study" / "study.toml", quick)
    assert (tmp_path / "report.html").stat().st_size > 100_000
