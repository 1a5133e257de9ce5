"""Velox: inference only, each network's forward pass as plans of the query engine.

`load` copies a batch into the buffers to which the plans are bound (t_h2d); `infer` runs the plans (t_f), which
includes what Velox does again for every run, compiling the expressions. Preparing the plans belongs to building the
network and is not timed.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

import numpy as np
import pyarrow
import pyvelox

from steplab_worker import adapter as base
from steplab_worker.adapters.velox.network import Network
from steplab_worker.graph import Graph
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.weights import Key

DECLARATION = {
    "title": "Velox",
    "pins": ["pyvelox==0.2.0", "pyarrow==19.0.1", "numpy>=2,<3", "pillow>=11,<14", "nibabel>=5.3,<6"],
    "module": "pyvelox",
    "kinds": ["infer"],
    "strategies": ["sync"],
    "layers": [
        "conv",
        "dense",
        "max_pool",
        "avg_pool",
        "adaptive_avg_pool",
        "global_avg_pool",
        "batch_norm",
        "activation",
        "dropout",
        "drop_path",
        "add",
        "multiply",
        "scale",
        "concat",
        "flatten",
        "reshape",
        "upsample",
    ],
    "factors": {
        "formulation": {
            "default": "auto",
            "help": "how convolutions and dense layers are put: auto takes the faster for each layer",
            "levels": ["auto", "columns", "arrays"],
        },
    },
    "unsupported": [
        {"when": {"device": "cuda"}, "because": "it computes on CPUs only"},
    ],
}


class Session(base.Session):
    """One trial in Velox."""

    def __init__(self, job: TrialJob, graph: Graph, weights: Mapping[Key, np.ndarray], group: GroupJob):
        self.job, self.graph, self.weights, self.group = job, graph, dict(weights), group
        self.network = self._prepared(job.batch_size)

    def _prepared(self, batch: int) -> Network:
        return Network(self.graph, self.weights, batch, self.job.options["formulation"])

    def source(self) -> base.Source:
        """Batches from the data set's files."""
        return base.FileSource(self.job, self.group.rank, self.group.workers)

    def load(self, batch: Any) -> None:
        """Copy the samples into the buffers of the plans."""
        if len(batch[0]) != self.network.batch:
            self.network = self._prepared(len(batch[0]))
        self.network.load(batch[0])

    def infer(self) -> None:
        """Run the plans."""
        self.network.run()

    def outputs(self) -> np.ndarray:
        """What the last inference gave."""
        return self.network.results.copy()

    def parameters(self) -> Dict[Key, np.ndarray]:
        """The weights, which inference does not change."""
        keys = [(layer.name, name) for layer in self.graph.layers for name in layer.weights]
        return {key: self.weights[key] for key in keys}

    def loss(self) -> float:
        """The mean of the last outputs."""
        return float(self.network.results.mean())


class Adapter(base.Adapter):
    """Velox in one rank."""

    def versions(self) -> Dict[str, str]:
        """Velox, the Arrow it shares memory through, and the device."""
        return dict(super().versions(), velox=pyvelox.__version__, pyarrow=pyarrow.__version__, device="cpu")

    def session(self, job: TrialJob, graph: Graph, weights: Mapping[Key, np.ndarray]) -> Session:
        """Prepare the network's plans."""
        return Session(job, graph, weights, self.group)
