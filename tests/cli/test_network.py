"""`steplab network` and `steplab predict --network` as a user meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

Call = Callable[..., SimpleNamespace]


def test_it_measures_writes_a_profile_and_shows_it(in_process: Call, tmp_path: Path) -> None:
    said = in_process(
        "network", "--framework", "synthetic", "--ranks", "2", "--largest", 2**20, "--out", "p.json", "--json"
    )
    assert said.code == 0
    assert said.json["profile"] == "p.json"
    assert said.json["ranks"][0]["sizes"][0]["bytes"] == 1024
    assert json.loads((tmp_path / "p.json").read_text())["framework"] == "synthetic"
    shown = in_process(
        "network", "--framework", "synthetic", "--ranks", "2", "--largest", 2**20, "--folder", said.json["folder"]
    )
    assert "2 ranks on 1 host" in shown.out
    assert "1 MiB" in shown.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ranks", "two"], "'two' is no list of whole numbers"),
        (["--framework", "torhc"], "torch"),
        (["--largest", "10"], "no message has at most 10 bytes"),
        (["nowhere"], "there is no net 'nowhere'"),
        (["--rate", "1gbit"], "only the lines of a cluster in a box"),
        (["--executor", "cloud"], "there is no executor 'cloud'"),
    ],
)
def test_a_mistake_is_one_sentence(in_process: Call, words: list[str], told: str, tmp_path: Path) -> None:
    said = in_process("network", *words)
    assert said.code == 1
    assert told in said.err
    assert "Traceback" not in said.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"name": "x"}', "neither"),
        ('{"name": "x", "ranks": [{"ranks": 2, "sizes": []}]}', "ranks.0.sizes is empty"),
        ('{"name": "x", "link": {"bandwidth": 25, "latency": "1 us", "nodes": 2}}', "with its unit"),
        ('{"name": "x", "link": {"bandwidth": "-25 Gbit/s", "latency": "1 us", "nodes": 2}}', "link.bandwidth"),
        ('{"name": "x", "wires": 3}', "wires is not a field"),
        ("", "is not JSON"),
    ],
)
def test_a_nonsense_profile_is_one_sentence(in_process: Call, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "p.json").write_text(text)
    said = in_process("predict", "--network", "p.json", "--from", "s", "--at", "nodes=2")
    assert said.code == 1
    assert told in said.err
    assert "Traceback" not in said.err


def test_predict_wants_a_model_or_a_profile_with_a_study(in_process: Call) -> None:
    for words in ([], ["--network", "p.json"], ["m.json", "--network", "p.json"]):
        assert in_process("predict", *words, "--at", "nodes=2").code == 2
