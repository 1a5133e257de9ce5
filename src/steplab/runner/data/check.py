"""Checking a data set on disk: every sample is read, every file summed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steplab.core.errors import InputError, allowed, nearest
from steplab_worker import data

CHUNK = 64  # samples read at a time
# SHA-256 of the file with the training images, as published.
ORIGINALS = {
    "mnist": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "fashion-mnist": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
}
LISTED = 100  # with more files than this, only their common checksum is kept


@dataclass(frozen=True)
class SplitCheck:
    """One split: its samples, and how they are spread over the classes."""

    split: str
    samples: int
    classes: int
    fewest: int
    most: int


@dataclass(frozen=True)
class DataCheck:
    """A data set whose files were all read: counts, and SHA-256 checksums per file and of everything.

    `original` says whether the images are the published ones; None where no published checksum is known here.
    """

    name: str
    original: bool | None
    folder: str
    files: int
    bytes: int
    sha256: str
    checksums: dict[str, str]
    splits: tuple[SplitCheck, ...]


def check(folder: Path, name: str = "") -> DataCheck:
    """Read every sample and every file of a data set; the first damage found is raised as an error."""
    if not folder.is_dir():
        raise InputError("there is no such folder", where=str(folder))
    name = _known(name) if name else recognise(folder)
    try:
        splits = tuple(_check_split(folder, name, split) for split in data.SPLITS)
    except data.DataError as error:
        raise InputError(str(error)) from None
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {str(path.relative_to(folder)): _sum(path) for path in paths}
    total = hashlib.sha256("".join(f"{sha}  {path}\n" for path, sha in sums.items()).encode(errors="surrogateescape"))
    size = sum(path.stat().st_size for path in paths)
    listed = sums if len(sums) <= LISTED else {}
    original = ORIGINALS[name] in sums.values() if name in ORIGINALS else None
    return DataCheck(name, original, str(folder), len(paths), size, total.hexdigest(), listed, splits)


def _known(name: str) -> str:
    known = data.datasets()
    if name not in known:
        raise InputError(f"there is no data set {name!r}", hint=nearest(name, known))
    return name


def recognise(folder: Path) -> str:
    """Which data set a folder holds: all its files are there; then the folder's own name, then the number of files."""
    names = list(data.datasets())
    fitting = [name for name in names if not data.missing(str(folder), name)]
    if not fitting:
        raise InputError("this is no data set that is known", where=str(folder), hint=f"--name; {allowed(names)}")

    def likeness(name: str) -> tuple[bool, int, int]:
        # MNIST and Fashion-MNIST have the same files; a TinyImageNet folder is also one of ImageNet's layout.
        named = folder.absolute().name.startswith(name)
        return named, len(data.required(str(folder), name)), -names.index(name)

    return max(fitting, key=likeness)


def _check_split(folder: Path, name: str, split: str) -> SplitCheck:
    dataset = data.open_split(str(folder), name, split)
    counts = np.zeros(dataset.classes, dtype=np.int64)
    for start in range(0, len(dataset), CHUNK):
        _, labels = dataset.read(np.arange(start, min(start + CHUNK, len(dataset))))
        counts += np.bincount(labels[labels >= 0], minlength=dataset.classes)  # of hidden tokens others have none
    present = counts[counts > 0]
    return SplitCheck(split, len(dataset), len(present), int(present.min()), int(present.max()))


def _sum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
