"""Which column counts the workers, which is the batch, which counts the nodes: by its name, or as told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from steplab.core.errors import ModelError, nearest

# The names that tables of distributed training use, without case, separators and units.
WORKERS = frozenset({
    "workers", "numworkers", "nworkers", "replicas", "numreplicas", "nreplicas", "ranks", "numranks",
    "nranks", "worldsize", "gpus", "numgpus", "ngpus", "gpucount", "devices", "numdevices", "ndevices",
    "processes", "numprocesses", "nprocesses", "nprocs", "procs", "tasks", "ntasks", "accelerators",
})  # fmt: skip
BATCH = frozenset({
    "batchsize", "batch", "bsz", "localbsz", "localbatchsize", "localbatch", "minibatch", "minibatchsize",
    "microbatchsize", "batchpergpu", "batchperworker", "pergpubatchsize", "perdevicebatchsize",
    "perworkerbatchsize", "perdevicetrainbatchsize", "trainbatchsize", "bs",
})  # fmt: skip
GLOBAL_BATCH = frozenset({
    "globalbatchsize", "globalbatch", "globalbsz", "totalbatchsize", "totalbatch", "effectivebatchsize",
})  # fmt: skip
NODES = frozenset({
    "nodes", "numnodes", "nnodes", "hosts", "numhosts", "nhosts", "machines", "nummachines", "servers",
})  # fmt: skip
THREADS = frozenset({"threads", "numthreads", "nthreads"})
# Seconds that a network's profile gives for the exchange of a row's gradients (`fit --network`).
EXCHANGE = "exchange_s"


@dataclass(frozen=True)
class Parts:
    """The columns that the physics knows; an empty name means that there is none.

    `shared` says that the workers share the work of a batch (strong scaling); otherwise each has its own.
    """

    workers: str = ""
    batch: str = ""
    nodes: str = ""
    shared: bool = False
    exchange: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that were found."""
        return tuple(column for column in (self.workers, self.batch, self.nodes, self.exchange) if column)

    def document(self) -> dict[str, str | bool]:
        """Plain JSON data; what versions before did not know is left out where there is none."""
        known: dict[str, str | bool] = {"workers": self.workers, "batch": self.batch, "nodes": self.nodes}
        known["shared"] = self.shared
        return known | ({"exchange": self.exchange} if self.exchange else {})


@cache
def plain(name: str) -> str:
    """A column's name without its unit, case and separators.

    >>> plain("Batch size [images]"), plain("num_replicas")
    ('batchsize', 'numreplicas')
    """
    return re.sub(r"[^a-z]", "", re.sub(r"\(.*?\)|\[.*?\]", "", name.lower()))


def is_scale(name: str) -> bool:
    """Whether a column tells the scale of a run (workers, batch, nodes, threads) rather than its network.

    >>> is_scale("GPU count"), is_scale("filters")
    (True, False)
    """
    return plain(name) in WORKERS | BATCH | GLOBAL_BATCH | NODES | THREADS


def find_parts(
    frame: pd.DataFrame, columns: Sequence[str], workers: str = "", batch: str = "", nodes: str = ""
) -> Parts:
    """The parts by name among numeric columns; a part that is told wins, and "none" switches it off.

    >>> find_parts(pd.DataFrame({"gpus": [1, 2], "bsz": [8, 8]}), ["gpus", "bsz"])
    Parts(workers='gpus', batch='bsz', nodes='', shared=False, exchange='')
    """
    count = _chosen(frame, columns, workers, WORKERS, "workers")
    size = _chosen(frame, columns, batch, BATCH, "batch") or _chosen(frame, columns, batch, GLOBAL_BATCH, "batch")
    hosts = _chosen(frame, columns, nodes, NODES, "nodes")
    if not count and hosts:
        # A table that only counts nodes has one worker in each, as far as it tells.
        count, hosts = hosts, ""
    exchange = EXCHANGE if count and EXCHANGE in columns else ""
    return Parts(count, size, hosts, bool(count) and plain(size) in GLOBAL_BATCH, exchange)


def _chosen(frame: pd.DataFrame, columns: Sequence[str], told: str, names: frozenset[str], option: str) -> str:
    if told == "none":
        return ""
    if told:
        if told not in columns:
            raise ModelError(f"{option} is {told!r}, which is no numeric factor", hint=nearest(told, columns))
        return told
    counting = (column for column in columns if plain(column) in names and _counts(frame[column]))
    return next(counting, "")


def _counts(values: pd.Series) -> bool:
    return bool(np.all(values.to_numpy(float) >= 1))
