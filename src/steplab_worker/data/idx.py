"""MNIST and Fashion-MNIST in their IDX files (big-endian header, then one byte per pixel or label).

The format is described at the foot of LeCun, Cortes and Burges, "The MNIST database of handwritten digits".
Original names: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte`,
`t10k-labels-idx1-ubyte`, unpacked.
"""

from __future__ import annotations

import math
import os
import struct
from typing import Iterator, List, Tuple

import numpy as np

from steplab_worker.data import DataError, Dataset, Spec
from steplab_worker.data._files import Records, check_labels, check_size, normalise, read_head
from steplab_worker.data._images import balanced_labels, class_patterns, generator, images

DATASETS = {
    "mnist": Spec((1, 28, 28), 10, 60000, 10000, 60000, (0.1307,), (0.3081,)),
    "fashion-mnist": Spec((1, 28, 28), 10, 60000, 10000, 60000, (0.2860,), (0.3530,)),
}
PREFIXES = {"train": "train", "test": "t10k"}
LABEL_HEADER = 8
UNSIGNED_BYTE = 8  # the type code in the third byte of the header


def _paths(folder: str, split: str) -> Tuple[str, str]:
    stem = os.path.join(folder, PREFIXES[split])
    return stem + "-images-idx3-ubyte", stem + "-labels-idx1-ubyte"


def required(folder: str, name: str) -> List[str]:
    """The files without which the data set cannot be read."""
    return [path for split in PREFIXES for path in _paths(folder, split)]


def read_header(path: str, dims: int) -> Tuple[int, ...]:
    """The sizes in the header of an IDX file of bytes; the file must be exactly as long as they say."""
    length, magic = 4 + 4 * dims, bytes([0, 0, UNSIGNED_BYTE, dims])
    head = read_head(path, length)
    if len(head) < length:
        raise DataError("%s: truncated at offset %d, inside the header" % (path, len(head)))
    if head[:4] != magic:
        raise DataError("%s: magic number %s at offset 0, expected %s" % (path, head[:4].hex(), magic.hex()))
    sizes = struct.unpack(">%dI" % dims, head[4:])
    check_size(path, length + math.prod(sizes))
    return sizes


class Idx(Dataset):
    """One split of a data set of small grey images."""

    def __init__(self, folder: str, name: str, split: str) -> None:
        self._spec = DATASETS[name]
        self.shape, self.classes = self._spec.shape, self._spec.classes
        image_path, label_path = _paths(folder, split)
        sizes, (labels,) = read_header(image_path, 3), read_header(label_path, 1)
        if sizes[1:] != self.shape[1:]:
            raise DataError("%s: images of %dx%d at offset 8, expected 28x28" % (image_path, *sizes[1:]))
        if sizes[0] != labels:
            raise DataError("%s: %d labels at offset 4, but %d images" % (label_path, labels, sizes[0]))
        if not labels:
            raise DataError("%s: no samples, offset 4 says 0" % image_path)
        self._count = labels
        self._images = Records(image_path, 16, self.shape[1] * self.shape[2])
        self._labels = self._read_labels(label_path)

    def __len__(self) -> int:
        return self._count

    def read(self, indices: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The samples as float32 (channels first, normalised) and their labels as int64."""
        pixels = self._images.read(indices).reshape((-1, *self.shape))
        return normalise(pixels, self._spec), self._labels[indices]

    def _read_labels(self, path: str) -> np.ndarray:
        """All labels at once: a byte each, they are few against the images, and reading each alone costs as much."""
        (record,) = Records(path, LABEL_HEADER, self._count).read(np.zeros(1))
        labels = record.astype(np.int64)
        check_labels(path, labels, LABEL_HEADER + np.arange(self._count), self.classes)
        return labels


def open_split(folder: str, name: str, split: str) -> Dataset:
    """Open one split of MNIST or Fashion-MNIST."""
    return Idx(folder, name, split)


def make(folder: str, name: str, samples: int, seed: int) -> None:
    """Write learnable images in the four original files."""
    spec = DATASETS[name]
    bases = class_patterns(spec, name, seed)
    for part, (split, count) in enumerate((("train", samples), ("test", spec.test_samples(samples)))):
        rng = generator(name, seed, part)
        labels = balanced_labels(count, spec.classes, rng)
        image_path, label_path = _paths(folder, split)
        _write(image_path, (count, *spec.shape[1:]), images(labels, bases, rng))
        _write(label_path, (count,), iter([labels.astype(np.uint8)]))


def _write(path: str, sizes: Tuple[int, ...], parts: Iterator[np.ndarray]) -> None:
    with open(path, "wb") as file:
        file.write(bytes([0, 0, UNSIGNED_BYTE, len(sizes)]) + struct.pack(">%dI" % len(sizes), *sizes))
        for part in parts:
            file.write(part.tobytes())
