"""Where a data set's files come from: real ones if the user has them, generated ones otherwise."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from steplab.core import atomic
from steplab.core.errors import InputError, StoreError, nearest
from steplab.core.files import expanded
from steplab.core.home import home
from steplab_worker import data

SEED = 0  # of generated data; part of the folder's name


@dataclass(frozen=True)
class DataSource:
    """The files that trials read: where they are, whether they are real, how many training samples they hold."""

    name: str
    folder: Path
    source: Literal["real", "generated", "own"]
    samples: int


@dataclass(frozen=True)
class Description:
    """A data set in the list: what it looks like, and which files a trial would read."""

    name: str
    format: str
    shape: tuple[int, ...]
    classes: int
    train: int
    test: int
    generated: int
    source: Literal["real", "generated", "none", "incomplete"]
    folder: str | None


def describe(name: str) -> Description:
    """What is known of a data set without reading it; nothing is generated."""
    spec, (source, folder) = data.spec(name), _present(name)
    return Description(
        name, data.datasets()[name], spec.shape, spec.classes, spec.train, spec.test, spec.generated, source, folder
    )  # fmt: skip


def _present(name: str) -> tuple[Literal["real", "generated", "none", "incomplete"], str | None]:
    try:
        real = real_folder(name)
    except InputError as error:
        return "incomplete", error.where
    if real is not None:
        return "real", str(real)
    generated = generated_folder(name, data.spec(name).generated)
    return ("generated", str(generated)) if generated.is_dir() else ("none", None)


def provide(name: str, samples: int | None = None) -> DataSource:
    """The files of a data set: those in STEPLAB_DATA if they are there, otherwise generated on first use.

    `samples` is the number of training samples to generate; real files are used whole.
    """
    known = data.datasets()
    if name not in known:
        raise InputError(f"there is no data set {name!r}", hint=nearest(name, known))
    try:
        real = real_folder(name)
        if real is not None:
            return DataSource(name, real, "real", len(data.open_split(str(real), name)))
    except data.DataError as error:
        raise InputError(str(error)) from None
    count = data.spec(name).generated if samples is None else samples
    folder = generated_folder(name, count)
    make(folder, name, count, SEED)
    return DataSource(name, folder, "generated", count)


def own(name: str, samples: int, folder: Path | None) -> DataSource:
    """A data set of one's own: its samples come from the code in a folder."""
    return DataSource(name, folder or Path(), "own", samples)


def real_folder(name: str) -> Path | None:
    """The folder of the user's own files, or None; a folder with some files missing is an error, never passed over."""
    root = os.environ.get("STEPLAB_DATA")
    folder = expanded(root).absolute() / name if root else None
    if folder is None or not folder.is_dir() or not any(folder.iterdir()):
        return None
    missing = data.missing(str(folder), name)
    if missing:
        packed = Path(missing[0] + ".gz")
        hint = f"unpack it with `gunzip {packed}`" if packed.exists() else "complete the data set or move it away"
        raise InputError(f"{missing[0]} is missing", where=str(folder), hint=hint)
    return folder


def generated_folder(name: str, samples: int) -> Path:
    """Where generated files of a data set are kept."""
    return home() / "data" / f"{name}-{samples}-s{SEED}"


def make(folder: Path, name: str, samples: int, seed: int) -> None:
    """Generate a data set; its folder appears whole or not at all.

    A folder that already holds the data set is left as it is, so several processes may make the same one at once.
    """
    if folder.is_dir() and any(folder.iterdir()):
        return _expect_complete(folder, name)
    try:
        with atomic.folder(folder) as place:
            data.make(str(place), name, samples, seed)
            _publish(place, folder, name)
    except data.DataError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror})") from None


def _publish(place: Path, folder: Path, name: str) -> None:
    try:
        place.rename(folder)
    except OSError:
        # Another process was first: rename never replaces a folder that holds something.
        if not folder.is_dir():
            raise
        _expect_complete(folder, name)


def _expect_complete(folder: Path, name: str) -> None:
    absent = data.missing(str(folder), name)
    if absent:
        raise InputError(f"the folder is in use, but is no whole {name}: {absent[0]} is missing", where=str(folder))
