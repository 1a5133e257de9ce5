"""A model in ONNX Runtime, ready to run: one input, all of its outputs, on CPUs."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Union

import numpy as np
import onnxruntime

LEVELS = onnxruntime.GraphOptimizationLevel
OPTIMIZATIONS = {
    "all": LEVELS.ORT_ENABLE_ALL,
    "extended": LEVELS.ORT_ENABLE_EXTENDED,
    "basic": LEVELS.ORT_ENABLE_BASIC,
    "none": LEVELS.ORT_DISABLE_ALL,
}
TYPES: Dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
}


class ModelError(Exception):
    """The model cannot be run as trials run it; the message says why."""


class Engine:
    """A model and its last outputs."""

    def __init__(
        self, model: Union[bytes, str], threads: int, optimization: str, arrays: Mapping[str, np.ndarray] = {}
    ):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = OPTIMIZATIONS[optimization]
        self.held = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays.values()]
        options.add_external_initializers(list(arrays), self.held)
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.input = _only_input(self.session)
        self.names = [output.name for output in self.session.get_outputs()]
        self.given: Dict[str, Any] = {}
        self.results: List[Any] = []

    def expect(self, rows: int, shape: List[int]) -> None:
        """Say so if the model does not take so many samples of that shape."""
        if not self.input.shape:
            return  # it does not say what it takes
        batch, *extents = self.input.shape
        if isinstance(batch, int) and batch != rows:
            raise ModelError("its batch is fixed at %d, not %d" % (batch, rows))
        if len(extents) != len(shape) or any(isinstance(e, int) and e != s for e, s in zip(extents, shape)):
            wanted = "x".join(str(extent or "any") for extent in extents)
            raise ModelError("it takes samples of %s, not %s" % (wanted, "x".join(map(str, shape))))

    def load(self, samples: np.ndarray) -> None:
        """Hand a batch over: a view of it, unless the model wants numbers of another type."""
        array = np.ascontiguousarray(samples, TYPES[self.input.type])
        self.given = {self.input.name: onnxruntime.OrtValue.ortvalue_from_numpy(array)}

    def run(self) -> None:
        """Run the model on the batch."""
        self.results = self.session.run_with_ort_values(self.names, self.given)

    def outputs(self) -> np.ndarray:
        """The first of the last outputs."""
        first: np.ndarray = self.results[0].numpy()
        return first

    def mean(self) -> float:
        """Of the first of the last outputs, which must be numbers."""
        return float(self.outputs().mean(dtype=np.float64))


def _only_input(session: Any) -> Any:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise ModelError("it has %d inputs (%s), not one" % (len(inputs), ", ".join(i.name for i in inputs)))
    if inputs[0].type not in TYPES:
        raise ModelError("its input is a %s, not one of %s" % (inputs[0].type, ", ".join(TYPES)))
    return inputs[0]
