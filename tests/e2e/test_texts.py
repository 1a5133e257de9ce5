"""A GPT-2 learns real text: a page of this project, byte by byte, through the command that makes a data set of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steplab.store import tables

ROOT = Path(__file__).parents[2]
PATIENCE_S = 900
STUDY = """
[study]
name = "reading"
kind = "train"
[factors]
framework = ["torch"]
network = ["gpt2"]
dataset = ["bytes"]
layers = 1
width = 32
heads = 2
sequence = 32
vocabulary = 256
batch_size = 16
optimizer = "adam"
learning_rate = 0.01
[design]
replicates = 1
[train]
epochs = 3
validation_samples = 50
"""


@pytest.mark.framework("torch")
def test_the_loss_falls_on_real_text_below_that_of_the_frequencies_alone(
    tmp_path: Path, steplab: Callable[..., Any]
) -> None:
    page = ROOT / "docs" / "costs.md"
    made = steplab("data", "make", "bytes", "--text", page, "--out", "texts/bytes", "--json").json
    assert (made["name"], made["train"] > 0, made["test"] > 0) == ("bytes", True, True)
    (tmp_path / "reading.toml").write_text(STUDY)
    ran = steplab("run", "reading.toml", env={"STEPLAB_DATA": str(tmp_path / "texts")}, timeout=PATIENCE_S)
    assert ran.code == 0, ran.err
    loaded = tables.load(tmp_path / "runs/reading")
    assert set(loaded.trials["data_source"]) == {"real"}
    epochs = loaded.epochs.to_pandas().sort_values("epoch")
    losses = epochs["loss"].tolist()
    assert losses[0] > losses[1] > losses[2]
    # What is told by how often each byte comes is the entropy of the page; less is order that was learned.
    shares = np.bincount(np.frombuffer(page.read_bytes(), dtype=np.uint8)) / page.stat().st_size
    assert losses[-1] < -sum(share * np.log(share) for share in shares if share)
    assert epochs["validation_accuracy"].iloc[-1] > epochs["validation_accuracy"].iloc[0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tokens", "--text", "page.md"), "a text becomes tokens by a tokeniser, and there is none here"),
        (("bytes", "--text", "none.md"), "none.md: cannot be read"),
        (("bytes", "--text", "picture.png"), "picture.png: is no text in UTF-8"),
        (("bytes", "--text", "page.md", "--samples", "5"), "a text is used whole"),
        (("bytes", "--text", "short.md"), "there are 2 bytes of text, and a data set takes 20 at least"),
        (("bytes", "--text", "/dev/zero"), "/dev/zero: is a device, not a regular file"),
    ],
)
def test_what_is_no_text_is_one_sentence(
    tmp_path: Path, in_process: Callable[..., Any], words: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "page.md").write_text("words and words " * 9)
    (tmp_path / "short.md").write_text("ab")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\xff")
    refused = in_process("data", "make", *words, "--out", "made")
    assert (refused.code, sentence in refused.err) == (1, True), refused.err
    assert not (tmp_path / "made").exists()


def test_a_folder_gives_its_texts_in_order_and_passes_over_the_rest(
    tmp_path: Path, in_process: Callable[..., Any]
) -> None:
    folder = tmp_path / "pages"
    (folder / ".hidden").mkdir(parents=True)
    for name, content in (("b.md", b"bbbb"), ("a.md", b"a" * 20), ("c.bin", b"\0\1"), (".hidden/d.md", b"d")):
        (folder / name).write_bytes(content)
    assert in_process("data", "make", "bytes", "--text", "pages", "--out", "made").code == 0
    parts = [np.fromfile(tmp_path / "made" / name, dtype="<u2") for name in ("train.bin", "val.bin")]
    assert bytes(np.concatenate(parts).astype(np.uint8)) == b"a" * 20 + b"\nbbbb"
    assert len(parts[1]) == 2
