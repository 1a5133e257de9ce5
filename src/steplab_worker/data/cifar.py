"""CIFAR-10 and CIFAR-100 in their binary files: label bytes, then 3,072 pixel bytes (red, green, blue planes).

The layout is described in Krizhevsky, "The CIFAR-10 dataset": one label byte per record, in CIFAR-100 a coarse and a
fine one; the fine label is the class. The files lie in the folder itself or in the original folder inside it.
"""

from __future__ import annotations

import os
from typing import Dict, List, Tuple

import numpy as np

from steplab_worker.data import DataError, Dataset, Spec
from steplab_worker.data._files import Records, check_labels, file_size, normalise
from steplab_worker.data._images import balanced_labels, class_patterns, generator, images

DATASETS = {
    "cifar10": Spec(
        (3, 32, 32), 10, 50000, 10000, 50000, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    ),
    "cifar100": Spec(
        (3, 32, 32), 100, 50000, 10000, 50000, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
    ),
}  # fmt: skip
PIXELS = 3 * 32 * 32
FOLDERS = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}
FILES: Dict[str, Dict[str, Tuple[str, ...]]] = {
    "cifar10": {"train": tuple("data_batch_%d.bin" % i for i in range(1, 6)), "test": ("test_batch.bin",)},
    "cifar100": {"train": ("train.bin",), "test": ("test.bin",)},
}
LABELS = {"cifar10": 1, "cifar100": 2}  # label bytes before the pixels
COARSE_CLASSES = 20


def _inside(folder: str, name: str) -> str:
    original = os.path.join(folder, FOLDERS[name])
    return folder if os.path.isfile(os.path.join(folder, FILES[name]["test"][0])) else original


def required(folder: str, name: str) -> List[str]:
    """The files without which the data set cannot be read."""
    return [os.path.join(_inside(folder, name), file) for files in FILES[name].values() for file in files]


def count_records(path: str, length: int) -> int:
    """How many records a file holds; it must hold at least one, and only whole ones."""
    size = file_size(path)
    if size == 0 or size % length:
        raise DataError("%s: truncated at offset %d, records are %d bytes long" % (path, size, length))
    return size // length


class Cifar(Dataset):
    """One split of a data set of small colour images, over one or several files."""

    def __init__(self, folder: str, name: str, split: str) -> None:
        self._spec, self._label_bytes = DATASETS[name], LABELS[name]
        self.shape, self.classes = self._spec.shape, self._spec.classes
        length = self._label_bytes + PIXELS
        paths = [os.path.join(_inside(folder, name), file) for file in FILES[name][split]]
        self._ends = np.cumsum([count_records(path, length) for path in paths])
        self._files = [Records(path, 0, length) for path in paths]

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, indices: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The samples as float32 (channels first, normalised) and their labels as int64."""
        indices = np.asarray(indices)
        places = np.searchsorted(self._ends, indices, side="right")
        rows = np.empty((len(indices), self._files[0].length), dtype=np.uint8)
        for at in np.unique(places):
            mine = places == at
            first = self._ends[at - 1] if at else 0
            rows[mine] = self._checked(self._files[at], indices[mine] - first)
        pixels = rows[:, self._label_bytes :].reshape((-1, *self.shape))
        return normalise(pixels, self._spec), rows[:, self._label_bytes - 1].astype(np.int64)

    def _checked(self, file: Records, indices: np.ndarray) -> np.ndarray:
        rows, offsets = file.read(indices), file.offsets(indices)
        if self._label_bytes == 2:
            check_labels(file.path, rows[:, 0], offsets, COARSE_CLASSES)
        last = self._label_bytes - 1
        check_labels(file.path, rows[:, last], offsets + last, self.classes)
        return rows


def open_split(folder: str, name: str, split: str) -> Dataset:
    """Open one split of CIFAR-10 or CIFAR-100."""
    return Cifar(folder, name, split)


def make(folder: str, name: str, samples: int, seed: int) -> None:
    """Write learnable images in the original files and folder."""
    spec, inside = DATASETS[name], os.path.join(folder, FOLDERS[name])
    files = FILES[name]
    if samples < len(files["train"]):
        raise DataError("%s: cannot make %d samples for %d files" % (name, samples, len(files["train"])))
    os.mkdir(inside)
    bases = class_patterns(spec, name, seed)
    for part, (split, count) in enumerate((("train", samples), ("test", spec.test_samples(samples)))):
        rng = generator(name, seed, part)
        labels = balanced_labels(count, spec.classes, rng)
        for file, own in zip(files[split], np.array_split(labels, len(files[split]))):
            _write(os.path.join(inside, file), name, own, bases, rng)


def _write(path: str, name: str, labels: np.ndarray, bases: np.ndarray, rng: np.random.Generator) -> None:
    coarse = labels * COARSE_CLASSES // DATASETS[name].classes
    heads = np.stack([coarse, labels] if LABELS[name] == 2 else [labels], axis=1).astype(np.uint8)
    done = 0
    with open(path, "wb") as file:
        for pixels in images(labels, bases, rng):
            head = heads[done : done + len(pixels)]
            file.write(np.hstack([head, pixels.reshape(len(pixels), PIXELS)]).tobytes())
            done += len(pixels)
