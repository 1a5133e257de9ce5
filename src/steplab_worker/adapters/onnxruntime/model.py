"""An ONNX model while it is written: nodes, and the arrays that they read.

Weights are not written into the model: they are declared, and handed to ONNX Runtime as the arrays that they are. A
serialised model could hold no more than 2 GB of them, and they would be copied twice.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from steplab_worker.graph import Shape

OPSET = 23  # the first with an operator for attention
IR_VERSION = 11  # the format that came with it
BATCH = "batch"  # the name of the extent that is left open


class Model:
    """Nodes in their order; every value has a name."""

    def __init__(self, weights: Mapping[Tuple[str, str], np.ndarray]):
        self.weights = weights
        self.nodes: List[Any] = []
        self.constants: List[Any] = []
        self.arrays: Dict[str, np.ndarray] = {}  # of the weights, by their name in the model

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add an operator with one output; the name of that."""
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=output, **attributes))
        return output

    def split(self, value: str, parts: int, axis: int) -> List[str]:
        """Cut a value into equal parts."""
        names = ["%s/part%d" % (value, number) for number in range(parts)]
        self.nodes.append(helper.make_node("Split", [value], names, axis=axis, num_outputs=parts))
        return names

    def numbers(self, name: str, values: Any, dtype: Any = np.int64) -> str:
        """A small array that belongs to the model, such as the shape for a Reshape."""
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def array(self, name: str, values: np.ndarray) -> str:
        """A large array, which the model only declares."""
        self.arrays[name] = np.ascontiguousarray(values, np.float32)
        return name

    def weight(self, layer: str, name: str) -> str:
        """A weight or a buffer as it is."""
        return self.array("%s.%s" % (layer, name), self.weights[layer, name])

    def serialized(self, name: str, inputs: Tuple[str, int, Shape], output: Tuple[str, Shape]) -> bytes:
        """The model for samples of a type and a shape, of any number."""
        source, kind, shape = inputs
        target, given = output
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(source, kind, [BATCH, *shape])],
            [helper.make_tensor_value_info(target, TensorProto.FLOAT, [BATCH, *given])],
            self.constants + [_declared(array, values) for array, values in self.arrays.items()],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        content: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()
        return content


def _declared(name: str, values: np.ndarray) -> Any:
    """An initialiser whose values are elsewhere."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=values.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "handed over"), ("offset", "0"), ("length", str(values.nbytes))):
        tensor.external_data.add(key=key, value=value)
    return tensor
