"""Data sets: one file per format, each reading the original files and able to generate them.

A format file holds `DATASETS` (name -> `Spec`), `required(folder, name)` (the paths without which nothing can be
read), `open_split(folder, name, split) -> Dataset` and `make(folder, name, samples, seed)`, which writes learnable
data into an existing empty folder in exactly the original format and layout.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

SPLITS = ("train", "test")
MAX_SAMPLES = 10000000  # more fill a disk before they are of use


class DataError(Exception):
    """A data file is missing, truncated, corrupt or mislabelled; the message names file and offset."""


@dataclass(frozen=True)
class Spec:
    """What a data set looks like: the shape of a sample, its classes, its sizes, its normalisation.

    `train` and `test` are the original sizes; `generated` is how many training samples are made unless told. `losses`
    are those that a network may have to learn from it. A network may take samples of a text in several parts.
    """

    shape: Tuple[int, ...]
    classes: int
    train: int
    test: int
    generated: int
    mean: Tuple[float, ...]
    std: Tuple[float, ...]
    losses: Tuple[str, ...] = ("cross-entropy", "reconstruction")
    parts: int = 1

    @property
    def is_text(self) -> bool:
        """Whether samples are tokens, as many as the network takes."""
        return self.losses[0].endswith("-token")

    def cut(self, length: int) -> "Spec":
        """A text's, in samples of that many tokens.

        >>> text = Spec((1024,), 256, 980, 108, 2048, (), (), ("next-token",))
        >>> text.cut(64).shape, text.cut(64).parts
        ((64,), 16)
        """
        return replace(self, shape=(length,), parts=max(1, self.shape[0] // length))

    def test_samples(self, samples: int) -> int:
        """How many test samples belong to that many training samples, in the original proportion.

        >>> Spec((1, 28, 28), 10, 60000, 10000, 60000, (0.1307,), (0.3081,)).test_samples(600)
        100
        """
        return max(1, samples * self.test // self.train)


class Dataset:
    """One split of a data set on disk; `read` really reads (from disk or page cache)."""

    shape: Tuple[int, ...]
    classes: int

    def __len__(self) -> int:
        raise NotImplementedError

    def read(self, indices: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The samples as float32 (channels first, normalised), or tokens as int32, and their labels as int64."""
        raise NotImplementedError

    def cut(self, shape: Tuple[int, ...]) -> "Dataset":
        """The same split with samples of the shape that the network takes: of a text another number of tokens."""
        if shape != self.shape:
            raise DataError("samples of shape %r cannot be read as %r" % (self.shape, shape))
        return self


def formats() -> List[str]:
    """All formats, by name; nothing is imported."""
    files = os.listdir(os.path.dirname(os.path.abspath(__file__)))
    return sorted(file[:-3] for file in files if file.endswith(".py") and not file.startswith("_"))


def _module(name: str) -> Any:
    return importlib.import_module("%s.%s" % (__name__, name))


def datasets() -> Dict[str, str]:
    """All data sets: name -> the format it is stored in."""
    return {name: format_ for format_ in formats() for name in _module(format_).DATASETS}


@lru_cache(maxsize=None)  # asked for in every trial
def _format_of(name: str) -> Any:
    known = datasets()
    if name not in known:
        raise DataError("there is no data set %r; there are %s" % (name, ", ".join(known)))
    return _module(known[name])


def spec(name: str) -> Spec:
    """What the data set of that name looks like."""
    return _format_of(name).DATASETS[name]


def required(folder: str, name: str) -> List[str]:
    """The files (or folders) without which the data set cannot be read."""
    return _format_of(name).required(folder, name)


def missing(folder: str, name: str) -> List[str]:
    """The files (or folders) of the data set that are not there."""
    return [path for path in required(folder, name) if not os.path.exists(path)]


def open_split(folder: str, name: str, split: str = "train", shape: Optional[Tuple[int, ...]] = None) -> Dataset:
    """Open one split (`train` or `test`) of a data set in a folder, with samples of a shape if one is given."""
    if split not in SPLITS:
        raise DataError("there is no split %r; there are %s" % (split, ", ".join(SPLITS)))
    dataset = _format_of(name).open_split(folder, name, split)
    return dataset if shape is None else dataset.cut(tuple(shape))


def make(folder: str, name: str, samples: int, seed: int) -> None:
    """Generate a data set of that many training samples in its original format, in a folder that is new or empty.

    A process that is killed leaves a part of it there: whoever must not see that fills a folder aside and moves it.
    """
    module = _format_of(name)
    if not 1 <= samples <= MAX_SAMPLES:
        raise DataError("%s: cannot make %d samples, from 1 to %d" % (name, samples, MAX_SAMPLES))
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise DataError("%s: the folder is not empty" % folder)
    module.make(folder, name, samples, seed)
