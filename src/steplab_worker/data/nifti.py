"""Brain volumes (ADNI) as NIfTI files with a table of labels; needs nibabel.

ADNI hands out scans without a layout of its own, so this one is ours: `volumes/*.nii.gz` (or `.nii`) and `labels.csv`
with the columns `file,label,split`: a file name in `volumes`, the diagnosis `CN` or `AD`, and `train` or `test`.
Volumes are expected skull-stripped and registered. Other sizes than that of the samples are sampled down or up at
evenly spaced voxels; each volume is brought to mean 0 and deviation 1.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
import struct
from typing import Any, Dict, List, Tuple

import numpy as np

from steplab_worker.data import SPLITS, DataError, Dataset, Spec
from steplab_worker.data._files import decoding, expect_package, file_size, read_lines
from steplab_worker.data._images import balanced_labels, generator, patterns

# ADNI has no fixed size: 400 and 100 only say that a fifth is for testing.
DATASETS = {"adni": Spec((1, 64, 64, 64), 2, 400, 100, 64, (0.0,), (1.0,))}
DIAGNOSES = {"CN": 0, "AD": 1}
COLUMNS = ["file", "label", "split"]
MAX_VOXELS = 512**3
MAX_VALUE = 1e30
MAX_SIDE = 2048
MAX_BEGIN = 1 << 24  # bytes of headers and extensions before the voxels
SLAB_VOXELS = 1 << 22  # unpacked at a time
DEFLATE_LIMIT = 1032  # bytes that one compressed byte can stand for, at most


def _labels_path(folder: str) -> str:
    return os.path.join(folder, "labels.csv")


def required(folder: str, name: str) -> List[str]:
    """The paths without which the data set cannot be read."""
    return [_labels_path(folder), os.path.join(folder, "volumes")]


def read_labels(folder: str) -> Dict[str, List[Tuple[str, int]]]:
    """The paths and labels of each split, in the order of the table."""
    path, offset = _labels_path(folder), 0
    splits: Dict[str, List[Tuple[str, int]]] = {split: [] for split in SPLITS}
    for number, line in enumerate(read_lines(path)):
        cells = _cells(line, path, offset)
        if number == 0:
            if cells != COLUMNS:
                raise DataError("%s: the columns at offset 0 must be %s" % (path, ",".join(COLUMNS)))
        elif cells:
            file, label, split = _row(cells, path, offset)
            splits[split].append((os.path.join(folder, "volumes", file), label))
        offset += len(line)
    return splits


def _cells(line: bytes, path: str, offset: int) -> List[str]:
    try:
        return next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")]), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError("%s: no table row at offset %d: %s" % (path, offset, error)) from None


def _row(cells: List[str], path: str, offset: int) -> Tuple[str, int, str]:
    where = "%s: offset %d" % (path, offset)
    if len(cells) != len(COLUMNS):
        raise DataError("%s: %d cells, expected %s" % (where, len(cells), ",".join(COLUMNS)))
    file, label, split = cells
    if not file or os.path.basename(file) != file or "\0" in file:
        raise DataError("%s: %r is no file name" % (where, file))
    if label not in DIAGNOSES:
        raise DataError("%s: label %r, expected one of %s" % (where, label, ", ".join(DIAGNOSES)))
    if split not in SPLITS:
        raise DataError("%s: split %r, expected one of %s" % (where, split, ", ".join(SPLITS)))
    return file, DIAGNOSES[label], split


class Volumes(Dataset):
    """One split of a data set of volumes, unpacked when they are read."""

    def __init__(self, folder: str, name: str, split: str) -> None:
        self.shape, self.classes = DATASETS[name].shape, DATASETS[name].classes
        rows = read_labels(folder)[split]
        if not rows:
            raise DataError("%s: no volumes for %s" % (_labels_path(folder), split))
        for path, _ in rows:
            file_size(path)
        self._paths = [path for path, _ in rows]
        self._labels = np.array([label for _, label in rows], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, indices: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """The samples as float32 (channels first, mean 0, deviation 1) and their labels as int64."""
        samples = np.empty((len(indices), *self.shape), dtype=np.float32)
        for row, index in enumerate(indices):
            samples[row, 0] = standardised(read_volume(self._paths[index], self.shape[1:]))
        return samples, self._labels[indices]


def _places(old: int, new: int) -> np.ndarray:
    """Evenly spaced places along a side, so that it gets its new length."""
    return np.minimum((np.arange(new) * old + old // 2) // new, old - 1)


def standardised(volume: np.ndarray) -> np.ndarray:
    """The volume with mean 0 and deviation 1 (a constant one: all 0)."""
    centred = volume.astype(np.float32) - np.float32(volume.mean(dtype=np.float64))
    return centred / np.float32(max(float(centred.std(dtype=np.float64)), 1e-6))


def read_volume(path: str, shape: Tuple[int, ...]) -> np.ndarray:
    """The voxels of a NIfTI file as float32, scaled as its header says, at evenly spaced places to have that shape."""
    with decoding(path) as raw:
        return _voxels(gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw, path, shape)


def _voxels(stream: Any, path: str, wanted: Tuple[int, ...]) -> np.ndarray:
    """Slab by slab, of which only what is wanted is kept: a small file may unpack to a giant."""
    header = _header(stream, path)
    shape, dtype, begin = _plausible(header, path)
    rows, columns, planes = (_places(old, new) for old, new in zip(shape, wanted))
    plane = shape[0] * shape[1] * dtype.itemsize
    values, depth = np.empty(wanted, dtype=np.float32), max(1, SLAB_VOXELS // (shape[0] * shape[1]))
    stream.seek(begin)
    for first in range(0, shape[2], depth):
        count, offset = min(depth, shape[2] - first), begin + first * plane
        payload = _exactly(stream, count * plane, path, offset)
        slab = _scaled(np.ndarray((*shape[:2], count), dtype, buffer=payload, order="F"), header, path, offset)
        if slab.shape == tuple(wanted):
            return slab
        inside = (planes >= first) & (planes < first + count)
        values[:, :, inside] = slab[np.ix_(rows, columns, planes[inside] - first)]
    return values


def _exactly(stream: Any, length: int, path: str, offset: int) -> bytes:
    payload = stream.read(length)
    if len(payload) < length:
        unpacked = " of the unpacked data" if path.endswith(".gz") else ""
        short = "truncated at offset %d%s, %d expected" % (offset + len(payload), unpacked, offset + length)
        raise DataError("%s: %s" % (path, short))
    return payload


def _header(stream: Any, path: str) -> Any:
    import nibabel

    first = stream.read(4)
    kinds = {348: nibabel.Nifti1Header, 540: nibabel.Nifti2Header}
    sizes = [struct.unpack(order + "i", first)[0] for order in "<>"] if len(first) == 4 else []
    size = next((size for size in sizes if size in kinds), None)
    if size is None:
        raise DataError("%s: no NIfTI header at offset 0, it begins with %s" % (path, first.hex() or "nothing"))
    block = first + stream.read(size - 4)
    if len(block) < size:
        raise DataError("%s: truncated at offset %d, inside the header" % (path, len(block)))
    return kinds[size](block, check=False)


def _plausible(header: Any, path: str) -> Tuple[Tuple[int, ...], np.dtype, int]:
    """Shape, type and place of the voxels, if a file of that size can hold them."""
    shape, dtype, begin = tuple(header.get_data_shape()), header.get_data_dtype(), int(header.get_data_offset())
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) != 3 or min(shape) < 1:
        raise DataError("%s: the header (offset 40) gives the shape %s, expected three sizes" % (path, shape))
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise DataError("%s: the header (offset 70) gives voxels of type %s, expected numbers" % (path, dtype))
    most = file_size(path) * (DEFLATE_LIMIT if path.endswith(".gz") else 1)
    giant = math.prod(shape) > MAX_VOXELS or max(shape) > MAX_SIDE
    if giant or not 0 <= begin <= MAX_BEGIN or begin + math.prod(shape) * dtype.itemsize > most:
        what = "%s voxels from offset %d on" % ("x".join(map(str, shape)), begin)
        raise DataError("%s: the header (offset 40) claims %s, too many for %d bytes" % (path, what, file_size(path)))
    return shape, dtype, begin


def _scaled(voxels: np.ndarray, header: Any, path: str, begin: int) -> np.ndarray:
    slope, intercept = header.get_slope_inter()
    with np.errstate(all="ignore"):
        values = voxels if slope is None else voxels * float(slope) + float(intercept or 0.0)
        values = values.astype(np.float32)
        wild = np.flatnonzero(~(np.abs(values.ravel(order="F")) < MAX_VALUE))
    if wild.size:
        offset = begin + int(wild[0]) * voxels.dtype.itemsize
        raise DataError("%s: the voxel at offset %d is not a usable number" % (path, offset))
    return values


def open_split(folder: str, name: str, split: str) -> Dataset:
    """Open one split of the volumes."""
    expect_package("nibabel", "nibabel")
    return Volumes(folder, name, split)


def make(folder: str, name: str, samples: int, seed: int) -> None:
    """Write skull-stripped brain-like volumes; in `AD` the hollow in the middle is larger, as ventricles are."""
    expect_package("nibabel", "nibabel")
    spec, rows = DATASETS[name], []
    os.mkdir(os.path.join(folder, "volumes"))
    tissue = patterns(1, spec.shape, generator(name, seed))[0, 0]
    for part, (split, count) in enumerate(zip(SPLITS, (samples, spec.test_samples(samples)))):
        rng = generator(name, seed, part)
        for i, label in enumerate(balanced_labels(count, spec.classes, rng)):
            file = "%s_%05d.nii.gz" % (split, i)
            _write(os.path.join(folder, "volumes", file), _brain(int(label), tissue, rng))
            rows.append((file, list(DIAGNOSES)[label], split))
    with open(_labels_path(folder), "w", newline="") as table:
        csv.writer(table, lineterminator="\n").writerows([COLUMNS, *rows])


def _brain(label: int, tissue: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    radius = (0.30 if label else 0.20) + rng.uniform(-0.03, 0.03)
    values = 300 + 400 * tissue + rng.integers(0, 100, tissue.shape)
    values[_ellipsoid(tissue.shape, (radius, 1.4 * radius, radius), rng)] *= 0.3
    values[~_ellipsoid(tissue.shape, (0.75, 0.9, 0.75), rng)] = 0
    return values.astype(np.int16)


def _ellipsoid(shape: Tuple[int, ...], radii: Tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """Where a slightly displaced ellipsoid is, in a box from -1 to 1."""
    distance = np.zeros(shape, dtype=np.float32)
    for axis, (size, radius) in enumerate(zip(shape, radii)):
        place = (np.linspace(-1, 1, size, dtype=np.float32) - rng.uniform(-0.05, 0.05)) / radius
        distance += (place**2).astype(np.float32).reshape([-1 if dim == axis else 1 for dim in range(len(shape))])
    return distance < 1


def _write(path: str, voxels: np.ndarray) -> None:
    import nibabel

    packed = gzip.compress(nibabel.Nifti1Image(voxels, np.eye(4)).to_bytes(), compresslevel=1)
    # Bytes 4 to 7 hold the time of packing; without it the same seed gives the same file.
    with open(path, "wb") as file:
        file.write(packed[:4] + bytes(4) + packed[8:])
