"""Data sets: one file per format, each reading the original files and able to generate them.

A format file holds `DATASETS` (name -> `Spec`), `open_split(folder, name, split) -> Dataset` and
`make(folder, name, samples, seed)`, which writes learnable data in exactly the original format and layout.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

import numpy as np


class DataError(Exception):
    """A data file is missing, truncated, corrupt or mislabelled; the message names file and offset."""


@dataclass(frozen=True)
class Spec:
    """What a data set looks like: the shape of a sample, its classes, its original sizes."""

    shape: Tuple[int, ...]
    classes: int
    train: int
    test: int


class Dataset:
    """One split of a data set on disk; `read` really reads (from disk or page cache)."""

    shape: Tuple[int, ...]
    classes: int

    def __len__(self) -> int:
        raise NotImplementedError

    def read(self, indices: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The samples as float32 (channels first, normalised) and their labels as int64."""
        raise NotImplementedError


def formats() -> List[str]:
    """All formats, by name; nothing is imported."""
    files = os.listdir(os.path.dirname(os.path.abspath(__file__)))
    return sorted(file[:-3] for file in files if file.endswith(".py") and not file.startswith("_"))


def _module(name: str) -> Any:
    return importlib.import_module("%s.%s" % (__name__, name))


def datasets() -> Dict[str, str]:
    """All data sets: name -> the format it is stored in."""
    return {name: one for one in formats() for name in _module(one).DATASETS}


def spec(name: str) -> Spec:
    """What the data set of that name looks like."""
    return _module(datasets()[name]).DATASETS[name]


def open_split(folder: str, name: str, split: str = "train") -> Dataset:
    """Open one split (`train` or `test`) of a data set in a folder."""
    return _module(datasets()[name]).open_split(folder, name, split)


def make(folder: str, name: str, samples: int, seed: int) -> None:
    """Generate a data set of that many training samples in its original format."""
    _module(datasets()[name]).make(folder, name, samples, seed)
