"""`steplab analyze --section utilisation`: tokens, and why there is no share of a roof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from steplab.analysis.utilisation import Rate, Utilisation
from steplab.cli._findings import _used

STUDY = """\
[study]
name = "text"
[factors]
framework = "synthetic"
network = "gpt2"
dataset = "bytes"
layers = 1
width = 16
heads = 2
sequence = [16, 32]
vocabulary = 256
batch_size = 4
[measure]
iterations = 4
warmup = 1
"""


def test_texts_have_tokens_and_a_virtual_clock_no_flops(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    (tmp_path / "text.toml").write_text(STUDY)
    assert steplab("run", tmp_path / "text.toml", "--out", tmp_path / "out").code == 0
    shown = steplab("analyze", tmp_path / "out", "--section", "utilisation").out
    assert "tokens/s" in shown and "FLOP/s of products" in shown
    assert "roof " not in shown.replace("of the roof", "")  # nothing was computed, so none is missed
    assert "utilisation" in steplab("analyze", tmp_path / "out").out


def test_images_have_nothing_to_show_there(tmp_path: Path, steplab: Callable[..., Any]) -> None:
    images = STUDY.replace("gpt2", "lenet5").replace("bytes", "mnist").replace("sequence = [16, 32]\n", "")
    for option in ("layers = 1\n", "width = 16\n", "heads = 2\n", "vocabulary = 256\n"):
        images = images.replace(option, "")
    (tmp_path / "images.toml").write_text(images)
    assert steplab("run", tmp_path / "images.toml", "--out", tmp_path / "out").code == 0
    shown = steplab("analyze", tmp_path / "out", "--section", "utilisation").out
    assert "nothing to show: neither tokens nor FLOPs of these trials are known" in " ".join(shown.split())


def test_tokens_for_a_joule_that_nobody_measured_are_called_estimated() -> None:
    for provenance, shown in (("estimated", "12 (estimated)"), ("rapl", "12")):
        used = Utilisation(tokens_per_joule=Rate(12.0, None, None), energy_provenance=provenance)
        assert _used(SimpleNamespace(utilisation=used))[1] == shown  # type: ignore[arg-type]
