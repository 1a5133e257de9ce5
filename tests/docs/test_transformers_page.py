"""The page of transformers is typed word by word, with a real Hugging Face model, and ends in a decision.

Its study is smaller: a rank imports `transformers` for seconds, and nothing here looks at times.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pages import commands, files, shorten, typed

PAGE = (Path(__file__).parents[2] / "docs" / "transformers.md").read_text()
WIDTH, LAYERS, TOKENS, LENGTH = 128, 4, 512, 64  # of the page's model
# GPT-2's: embeddings of tokens and places; in a block two norms, attention and a dense pair; a norm at the end.
PARAMETERS = (TOKENS + LENGTH) * WIDTH + LAYERS * (12 * WIDTH**2 + 13 * WIDTH) + 2 * WIDTH


@pytest.mark.framework("torch")
def test_from_ones_own_hugging_face_model_to_a_decision(tmp_path: Path) -> None:
    for name, body in files(PAGE):
        (tmp_path / name).write_text(body)
    quick = {
        "batch_size = [4, 8, 16]": "batch_size = [4, 16]",
        "replicates = 3": "replicates = 2",
        "iterations = 10": "iterations = 3",
    }
    shorten(tmp_path / "mine.toml", quick)
    outputs = {line: typed(line, tmp_path) for line in commands(PAGE)}
    (counted,) = (text for line, text in outputs.items() if "inspect module" in line and "--memory" not in line)
    assert f"{PARAMETERS:,}" in counted
    assert "not counted" not in counted
    (held,) = (text for line, text in outputs.items() if "inspect module" in line and "--memory" in line)
    assert re.search(r"largest batch +\d+ within", held)
    assert (tmp_path / "mine.html").stat().st_size > 100_000
    trials = json.loads(typed("steplab status runs/mine --json", tmp_path))
    assert (trials["ok"], trials["failed"]) == (16, 0)
    groups = json.loads(typed("steplab analyze runs/mine --json", tmp_path))["groups"]
    assert all(group["phases"]["t_b"] > 0 for group in groups), "the usual step is taken apart"


def test_the_way_ends_in_a_decision_of_one_sentence() -> None:
    way = PAGE.split("\n## ")[1]
    *_, last = way.strip().split("\n\n")
    assert re.fullmatch(r"\*\*Decision\.\*\* [^.]+(\.\d[^.]*)*\.", " ".join(last.split())), last
