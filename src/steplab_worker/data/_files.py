"""Reading data files: what the system, a damaged file or its decoder refuses becomes a `DataError`."""

from __future__ import annotations

import importlib.util
import os
import stat
import weakref
from contextlib import contextmanager
from functools import lru_cache
from typing import BinaryIO, Iterator, List, Tuple

import numpy as np

from steplab_worker.data import DataError, Spec

MAX_TABLE_BYTES = 1 << 28


def expect_package(module: str, package: str) -> None:
    """Some formats need a package that not every framework's environment holds."""
    if importlib.util.find_spec(module) is None:
        raise DataError("this data set needs %s in the environment that reads it: pip install %s" % (package, package))


def open_regular(path: str) -> int:
    """A descriptor of a regular file; a FIFO in its place is not waited for, a device not read for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise DataError("%s: %s" % (path, error.strerror)) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise DataError("%s: is a %s, not a regular file" % (path, "folder" if stat.S_ISDIR(mode) else "FIFO or device"))


@contextmanager
def decoding(path: str) -> Iterator[BinaryIO]:
    """A file for a decoder; whatever that raises at it is told with the place that it had come to."""
    with os.fdopen(open_regular(path), "rb") as file:
        try:
            yield file
        except DataError:
            raise
        except Exception as error:  # noqa: BLE001 - other people's decoders end here; they raise what they please
            reason = str(error).partition("\n")[0][:200] or type(error).__name__
            where = "at or before offset %d" % file.tell()
            raise DataError("%s: corrupt or truncated, %s: %s" % (path, where, reason)) from None


def read_head(path: str, length: int) -> bytes:
    """The first bytes of a file, fewer if it is shorter."""
    with decoding(path) as file:
        return file.read(length)


def read_lines(path: str) -> List[bytes]:
    """The lines of a file with their ends, so that their lengths add up to offsets."""
    if file_size(path) > MAX_TABLE_BYTES:
        raise DataError("%s: larger than %d bytes, which no list of samples is" % (path, MAX_TABLE_BYTES))
    with decoding(path) as file:
        return file.read(MAX_TABLE_BYTES).splitlines(keepends=True)


def file_size(path: str) -> int:
    """How long a file is, in bytes."""
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise DataError("%s: %s" % (path, error.strerror)) from None


def check_size(path: str, expected: int) -> None:
    """A file must be exactly as long as its header says."""
    size = file_size(path)
    if size < expected:
        raise DataError("%s: truncated at offset %d, %d bytes are expected" % (path, size, expected))
    if size > expected:
        raise DataError("%s: %d bytes too many from offset %d on" % (path, size - expected, expected))


def check_labels(path: str, labels: np.ndarray, offsets: np.ndarray, classes: int) -> None:
    """Labels must name one of the classes; the first that does not is reported with its offset."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        at = int(wrong[0])
        what = "label %d at offset %d, but there are %d classes" % (labels[at], offsets[at], classes)
        raise DataError("%s: %s" % (path, what))


def normalise(pixels: np.ndarray, spec: Spec) -> np.ndarray:
    """Bytes 0..255, channels in the second dimension, as float32 with the data set's mean and deviation taken out."""
    scale, shift = _normalisation(spec, pixels.ndim)
    # In order of channels first: frameworks want it so, and it is six times as quick for decoded images.
    samples = pixels.astype(np.float32, order="C")
    samples *= scale
    samples -= shift
    return samples


@lru_cache(maxsize=None)
def _normalisation(spec: Spec, dims: int) -> Tuple[np.ndarray, np.ndarray]:
    """What a batch of that many dimensions is multiplied by, and what is then taken from it."""
    per_channel = (1, -1) + (1,) * (dims - 2)
    scale = (1.0 / (255.0 * np.asarray(spec.std))).astype(np.float32).reshape(per_channel)
    shift = (np.asarray(spec.mean) / np.asarray(spec.std)).astype(np.float32).reshape(per_channel)
    return scale, shift


class Records:
    """Equally long records of one file after a header, one after the other unless they begin `stride` bytes apart.

    They are read with `pread` and not through a memory map: a file that shrinks while it is in use is then an error
    and not the end of the process, and background threads can read at the same time.
    """

    def __init__(self, path: str, header: int, length: int, stride: int = 0) -> None:
        self.path, self.header, self.length, self.stride = path, header, length, stride or length
        self._descriptor = open_regular(path)
        weakref.finalize(self, os.close, self._descriptor)

    def offsets(self, indices: np.ndarray) -> np.ndarray:
        """Where the records begin."""
        return self.header + np.asarray(indices, dtype=np.int64) * self.stride

    def read(self, indices: np.ndarray) -> np.ndarray:
        """The records as rows of bytes."""
        offsets, descriptor, length = self.offsets(indices).tolist(), self._descriptor, self.length
        try:
            whole = b"".join([os.pread(descriptor, length, offset) for offset in offsets])
        except OSError:
            whole = b""
        if len(whole) != len(offsets) * length:  # something is wrong: say with which record
            whole = b"".join([self._record(offset) for offset in offsets])
        return np.frombuffer(whole, dtype=np.uint8).reshape(len(offsets), length)

    def _record(self, offset: int) -> bytes:
        try:
            part = os.pread(self._descriptor, self.length, offset)
        except OSError as error:
            raise DataError("%s: offset %d: %s" % (self.path, offset, error.strerror)) from None
        if len(part) != self.length:
            raise DataError("%s: truncated at offset %d while in use" % (self.path, offset + len(part)))
        return part
