"""Checkpoints of a training trial: all that it needs to go on, in one file for each saved epoch.

A file holds the state of rank 0, the epochs so far and the iteration times of all ranks. It appears whole or not at
all. It is NumPy's own format without pickles, so reading one never runs code, and what does not fit the trial is not
used: the one before it is, or the training begins afresh.

The folder is opened once, without following a link, and everything is done relative to it: whatever takes its place
in the study's folder meanwhile, nothing elsewhere is read, written or removed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from steplab_worker import codec
from steplab_worker.job import TrainingPlan, TrialJob
from steplab_worker.messages import EpochRow

State = Dict[str, np.ndarray]
Identity = Dict[str, Any]  # of a job, as JSON has it
FORMAT = 2  # 2: TensorFlow and JAX hold the features behind a flatten as they lie, channels last
KEPT = 2  # the newest, and the one before it in case the newest gets damaged
# What a job may change without making its checkpoints useless.
_FREE = ("own", "learns", "memory_limit_bytes", "loader_workers", "prefetch", "phases", "network_file")
_DAMAGE = (
    OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, MemoryError, RecursionError, RuntimeError,
    codec.ProtocolError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class BadCheckpoint(Exception):
    """A file that this trial cannot go on from; the message says why."""


class BadFolder(Exception):
    """A place for checkpoints that may lead out of the study's folder; no OSError, which a training outlives."""


@dataclass(frozen=True)
class Checkpoint:
    """A training after some epochs."""

    rows: List[EpochRow]  # the epochs so far
    attempt: int
    times: np.ndarray  # ranks × iterations
    warmup: np.ndarray
    state: State

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.rows)


def identity(job: TrialJob) -> Identity:
    """What of a job a checkpoint must agree with, as it looks after a way through JSON."""
    document = {name: value for name, value in codec.document(job).items() if name not in _FREE}
    plan = TrainingPlan.of(job)
    document.update(every=plan.every, validation_samples=plan.validation_samples, format=FORMAT)
    return document


class Checkpoints:
    """The checkpoints of one trial in their folder."""

    def __init__(self, folder: str, about: Identity, rank: int = 0):
        self.folder, self.about, self.rank = folder, about, rank
        self.own: List[int] = []  # epochs saved or restored by this process
        self._descriptor: Optional[int] = None  # of the folder, from its first use on

    def close(self) -> None:
        """Let go of the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def newest(self, like: State) -> Tuple[Optional[Checkpoint], List[str]]:
        """The newest checkpoint that can be used, and what is wrong with newer ones."""
        notes: List[str] = []
        for epoch in sorted(self._epochs(), reverse=True):
            try:
                return self.load(epoch, like), notes
            except BadCheckpoint as bad:
                notes.append(str(bad))
        return None, notes

    def load(self, epoch: int, like: State) -> Checkpoint:
        """Read the checkpoint of an epoch; its state must have the arrays of `like`."""
        name = _name(epoch)
        try:
            checkpoint = _read(name, self._opened(), self.about, like)
            if checkpoint.epoch != epoch:
                raise ValueError("it holds %d epochs" % checkpoint.epoch)
            if checkpoint.times.shape[0] <= self.rank:
                raise ValueError("it has no times of rank %d" % self.rank)
        except _DAMAGE as error:
            what = "%s: %s" % (type(error).__name__, error)
            raise BadCheckpoint("checkpoint %s was not used (%s)" % (name, what[:300])) from None
        self.own = [epoch]
        return checkpoint

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; older ones than its predecessor go."""
        about = {"job": self.about, "attempt": checkpoint.attempt, "epochs": checkpoint.rows}
        text = np.frombuffer(codec.encoded(about), dtype=np.uint8)
        arrays = {"state/" + name: array for name, array in checkpoint.state.items()}
        if any(array.dtype.hasobject for array in arrays.values()):
            raise TypeError("a state of plain numbers is needed")
        folder, name = self._opened(make=True), _name(checkpoint.epoch)
        aside = "%s.%d.part" % (name, os.getpid())
        with contextlib.suppress(FileNotFoundError):
            os.remove(aside, dir_fd=folder)  # of a process that had the same number
        try:
            with open(aside, "xb", opener=partial(_without_links, folder=folder)) as file:
                np.savez(file, about=text, times=checkpoint.times, warmup=checkpoint.warmup, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(aside, dir_fd=folder)
        self.own = [*self.own, checkpoint.epoch][-KEPT:]
        self._remove_others(folder)

    def _opened(self, make: bool = False) -> int:
        """The folder's descriptor, the same until `close`."""
        if self._descriptor is None:
            self._descriptor = _open_folder(self.folder, make)
        return self._descriptor

    def _epochs(self) -> List[int]:
        try:
            names = os.listdir(self._opened())
        except FileNotFoundError:
            return []
        matches = [re.match(r"epoch-(\d{5,9})\.npz$", name) for name in names]
        return [int(match.group(1)) for match in matches if match]

    def _remove_others(self, folder: int) -> None:
        """Older checkpoints, those that were no use, and what a killed rank left half-written."""
        keep = {_name(epoch) for epoch in self.own}
        for name in os.listdir(folder):
            if name not in keep and re.match(r"epoch-\d+\.npz(\.\d+\.part)?$", name):
                with contextlib.suppress(OSError):  # another laboratory removed it, or will
                    os.remove(name, dir_fd=folder)


def _name(epoch: int) -> str:
    return "epoch-%05d.npz" % epoch


def _open_folder(path: str, make: bool) -> int:
    """Open STUDY/checkpoints/TRIAL; the way to the study's folder is the user's own and may have links."""
    above, trial = os.path.split(path)
    study, checkpoints = os.path.split(above)
    root = os.open(study, os.O_RDONLY | os.O_DIRECTORY)
    try:
        middle = _open_inner(root, checkpoints, make, above)
    finally:
        os.close(root)
    try:
        return _open_inner(middle, trial, make, path)
    finally:
        os.close(middle)


def _open_inner(outer: int, name: str, make: bool, shown: str) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=outer)
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=outer)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise BadFolder("%s is a link or a file; checkpoints need a directory there" % shown) from None


def _read(name: str, folder: int, about: Identity, like: State) -> Checkpoint:
    # Not `numpy.load`, which leaves a damaged file open.
    with open(name, "rb", opener=partial(_without_links, folder=folder)) as raw, zipfile.ZipFile(raw) as file:
        if any(member.compress_type != zipfile.ZIP_STORED for member in file.infolist()):
            raise ValueError("it is compressed")  # ours are not, and a small file must not become a huge one
        document = json.loads(_array(file, "about").tobytes().decode())
        if document["job"] != about:
            raise ValueError("it belongs to another job")
        rows = [_row(number, row) for number, row in enumerate(document["epochs"], 1)]
        times, warmup = _array(file, "times"), _array(file, "warmup")
        state = {name: _array(file, "state/" + name) for name in like}
        if len(file.infolist()) != len(like) + 3:
            raise ValueError("it holds more than the network")
    _expect_times(times, warmup, sum(row.iterations for row in rows))
    if {name: (array.shape, array.dtype) for name, array in state.items()} != _shapes(like):
        raise ValueError("its arrays are not those of the network")
    return Checkpoint(rows, int(document["attempt"]), times, warmup, state)


def _without_links(name: str, flags: int, folder: int) -> int:
    """Open a regular file in the folder and nowhere else, and wait for nobody: the folder may come from a stranger."""
    opened = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError("it is no regular file")
    return opened


def _array(file: zipfile.ZipFile, name: str) -> np.ndarray:
    with file.open(name + ".npy") as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _shapes(state: State) -> Dict[str, Tuple[Any, Any]]:
    return {name: (array.shape, array.dtype) for name, array in state.items()}


def _row(number: int, document: Any) -> EpochRow:
    """An epoch as it was written, in order."""
    row = codec.decoded(EpochRow, document)
    if row.epoch != number:
        raise ValueError("its epoch %d is not in its place" % number)
    return row


def _expect_times(times: np.ndarray, warmup: np.ndarray, iterations: int) -> None:
    right = times.dtype == np.float64 and times.ndim == 2 and times.shape[1] == iterations
    if not (right and warmup.dtype == np.bool_ and warmup.shape == (iterations,)):
        raise ValueError("its times are not those of its epochs")
    if not (np.isfinite(times).all() and (times >= 0).all()):
        raise ValueError("its times are not seconds")
