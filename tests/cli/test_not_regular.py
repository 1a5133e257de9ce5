"""FIFOs and devices in the place of files: one sentence and exit code 1, never a wait."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steplab_worker import data

COMMANDS = {
    "study.toml": ["run", "{}", "--dry-run"],
    "model.json": ["predict", "{}", "--at", "workers=1"],
    "machine.toml": ["roofline", "--machine", "./{}"],
    "times.csv": ["import", "csv", "{}"],
    "times.parquet": ["fit", "{}"],
    "trace.json": ["import", "kineto", "{}"],
    "points.txt": ["import", "extrap", "{}"],
    "kernels.csv": ["import", "ncu", "{}"],
    "network.onnx": ["inspect", "onnx:{}"],
    "grid.csv": ["compare", "{}"],
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("kind", ["a FIFO", "a device"])
def test_what_is_no_regular_file_is_one_sentence(
    tmp_path: Path, in_process: Callable[..., Any], name: str, kind: str
) -> None:
    if kind == "a FIFO":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    ran = in_process(*(word.format(name) for word in COMMANDS[name]))
    assert ran.code == 1
    assert f"{name}: is {kind}, not a regular file" in ran.err


def test_the_study_file_of_a_folder_may_be_a_fifo(
    in_process: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path
) -> None:
    path = study_file()
    assert in_process("run", path, "--out", "out").code == 0
    (tmp_path / "out" / "study.toml").unlink()
    os.mkfifo(tmp_path / "out" / "study.toml")
    for words in (("status", "out"), ("run", path, "--out", "out")):
        ran = in_process(*words)
        assert ran.code == 1
        assert "is a FIFO, not a regular file" in ran.err


def test_a_study_file_in_the_folder_that_is_not_utf8_is_one_sentence(
    in_process: Callable[..., Any], study_file: Callable[..., Path], tmp_path: Path
) -> None:
    path = study_file()
    assert in_process("run", path, "--out", "out").code == 0
    (tmp_path / "out" / "study.toml").write_bytes(b"[study]\nname = '\xff'\n")
    ran = in_process("run", path, "--out", "out")
    assert (ran.code, "is not UTF-8 text" in ran.err) == (1, True)


def test_stdin_is_no_table(in_process: Callable[..., Any]) -> None:
    assert in_process("import", "csv", "/dev/stdin").code == 1


@pytest.mark.parametrize(
    ("dataset", "file"),
    [
        ("mnist", "train-images-idx3-ubyte"),
        ("mnist", "t10k-labels-idx1-ubyte"),
        ("cifar10", "cifar-10-batches-bin/data_batch_3.bin"),
        ("adni", "labels.csv"),
        ("adni", "volumes/train_00000.nii.gz"),
        ("tinyimagenet", "tiny-imagenet-200/val/val_annotations.txt"),
        ("tinyimagenet", "tiny-imagenet-200/val/images/val_0.JPEG"),
    ],
)
def test_a_data_file_may_be_a_fifo(tmp_path: Path, in_process: Callable[..., Any], dataset: str, file: str) -> None:
    data.make(str(tmp_path / dataset), dataset, 10, 0)
    (tmp_path / dataset / file).unlink()
    os.mkfifo(tmp_path / dataset / file)
    ran = in_process("data", "check", dataset)
    assert ran.code == 1
    assert Path(file).name in ran.err
