"""ONNX Runtime: inference only, of the network exported to ONNX, or of a user's own ONNX file, on CPUs.

`load` hands a batch over without copying it (t_h2d); `infer` runs the model (t_f). Exporting the network is not timed;
what ONNX Runtime takes to read, optimise and pack it is the trial's `compile_s`.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

import numpy as np
import onnx
import onnxruntime

from steplab_worker import adapter as base
from steplab_worker.adapters.onnxruntime.engine import Engine, ModelError
from steplab_worker.adapters.onnxruntime.files import model_file
from steplab_worker.adapters.onnxruntime.layers import export
from steplab_worker.graph import Graph
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.messages import Compiled
from steplab_worker.weights import Key

DECLARATION = {
    "title": "ONNX Runtime",
    "pins": ["onnxruntime>=1.31,<1.32", "onnx>=1.23,<2", "numpy>=2,<3", "pillow>=11,<14", "nibabel>=5.3,<6"],
    "module": "onnxruntime",
    "kinds": ["infer"],
    "strategies": ["sync"],
    "layers": "all",
    "factors": {
        "optimization": {
            "default": "all",
            "help": "what ONNX Runtime may change in the model before it runs; all: for this machine, too",
            "levels": ["all", "extended", "basic", "none"],
        },
    },
    "unsupported": [
        {"when": {"device": "cuda"}, "because": "the package of its environment computes on CPUs only"},
    ],
}


class Session(base.Session):
    """One trial in ONNX Runtime."""

    def __init__(self, job: TrialJob, graph: Optional[Graph], weights: Mapping[Key, np.ndarray], group: GroupJob):
        self.job, self.graph, self.weights, self.group = job, graph, weights, group
        if graph is None:
            model, arrays = model_file(job.network, group.python_path), {}
        else:
            model, arrays = export(graph, weights)
        start = self.clock()
        self.engine = Engine(model, group.threads, str(job.options["optimization"]), arrays)
        self.build_s = self.clock() - start

    def source(self) -> base.Source:
        """Batches from the data set's files."""
        return base.FileSource(self.job, self.group.rank, self.group.workers)

    def load(self, batch: Any) -> None:
        """Hand the samples over."""
        self.engine.load(batch[0])

    def infer(self) -> None:
        """Run the model."""
        self.engine.run()

    def outputs(self) -> np.ndarray:
        """What the last inference gave."""
        return self.engine.outputs().copy()

    def kernels(self) -> Dict[str, str]:
        """ONNX Runtime has one kernel for a whole attention."""
        return {"attention": "fused: Attention"} if self.graph is not None and self.graph.has_attention else {}

    def compiled(self) -> Compiled:
        """Reading, optimising and packing the model."""
        return Compiled(self.build_s)

    def parameters(self) -> Dict[Key, np.ndarray]:
        """The weights, which inference does not change."""
        layers = self.graph.layers if self.graph is not None else ()
        return {(layer.name, name): self.weights[layer.name, name] for layer in layers for name in layer.weights}

    def loss(self) -> float:
        """The mean of the last outputs."""
        return self.engine.mean()


class Adapter(base.Adapter):
    """ONNX Runtime in one rank."""

    def versions(self) -> Dict[str, str]:
        """ONNX Runtime, the package that writes models for it, and the device."""
        versions = {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__, "device": "cpu"}
        return dict(super().versions(), **versions)

    def session(self, job: TrialJob, graph: Optional[Graph], weights: Mapping[Key, np.ndarray]) -> Session:
        """Export the network, or open the user's file."""
        try:
            session = Session(job, graph, weights, self.group)
            if graph is None:
                session.engine.expect(job.batch_size, list(job.input_shape))
            return session
        except ModelError as error:
            raise base.Unsupported("%s: %s" % (job.network, error)) from error
