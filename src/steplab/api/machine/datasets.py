"""Data sets: what there is, making one in its original format, checking files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steplab.core.errors import InputError, nearest
from steplab.runner.data import check, datasets
from steplab.runner.data.check import DataCheck
from steplab.runner.data.datasets import Description
from steplab.runner.data.texts import NAME as BYTES
from steplab.runner.data.texts import make_text
from steplab_worker import data

__all__ = ["DataCheck", "Description", "GeneratedData", "check_dataset", "list_datasets", "make_dataset"]


@dataclass(frozen=True)
class GeneratedData:
    """A data set that was generated: where, and how many samples."""

    name: str
    folder: Path
    train: int
    test: int
    seed: int
    seconds: float

    def document(self) -> dict[str, Any]:
        """What `steplab data make --json` prints."""
        sizes = {"train": self.train, "test": self.test}
        return {"name": self.name, "folder": str(self.folder), **sizes, "seed": self.seed, "seconds": self.seconds}


def list_datasets() -> list[Description]:
    """All data sets: shape, classes, original sizes, and whether real or generated files are there."""
    return [datasets.describe(name) for name in data.datasets()]


def make_dataset(
    name: str, out: Path | str, samples: int | None = None, seed: int = 0, *, texts: Sequence[Path | str] = ()
) -> GeneratedData:
    """Generate a learnable data set in its original format and layout, into a new folder.

    Args:
        name: The data set.
        out: The new folder.
        samples: Training samples, with test samples in proportion.
        seed: The same seed gives the same bytes.
        texts: Of `bytes`, real text instead: files, and folders of them; the last tenth is for validation.
    """
    began, folder = time.perf_counter(), Path(out)
    known = data.datasets()
    if name not in known:
        raise InputError(f"there is no data set {name!r}", hint=nearest(name, known))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("already exists", where=str(folder), hint="name a new folder")
    if texts:
        _expect_plain(name, samples)
        make_text(folder, [Path(path) for path in texts])
    else:
        datasets.make(folder, name, samples or data.spec(name).generated, seed)
    train, test = (len(data.open_split(str(folder), name, split)) for split in ("train", "test"))
    return GeneratedData(name, folder, train, test, seed, time.perf_counter() - began)


def _expect_plain(name: str, samples: int | None) -> None:
    """A text becomes a data set by its bytes alone, and all of it does."""
    if name != BYTES:
        hint = f"name the data set {BYTES}, or write train.bin and val.bin with your tokeniser (docs/data.md)"
        raise InputError(f"a text becomes {name} by a tokeniser, and there is none here", hint=hint)
    if samples is not None:
        raise InputError("a text is used whole, so there is no number of samples to choose")


def check_dataset(folder: Path | str, name: str = "") -> DataCheck:
    """Read every sample and sum every file; a damaged file is an error that names the file and the offset.

    `name` is the data set, if its files do not tell.
    """
    return check.check(Path(folder), name)
