"""ONNX files made from the neutral graph, so that both ways of counting can be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from steplab_worker.graph import Graph, Layer
from steplab_worker.weights import initial_weights

PLAIN = {"add": "Add", "flatten": "Flatten", "global_avg_pool": "GlobalAveragePool"}
ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}


def _node(layer: Layer) -> list[Any]:
    inputs, o = list(layer.inputs), layer.options
    learned = [f"{layer.name}.{name}" for name in (*layer.weights, *layer.buffers)]
    if layer.kind == "conv":
        pads = [pair[0] for pair in o["padding"]] + [pair[1] for pair in o["padding"]]
        options = {"kernel_shape": o["kernel"], "strides": o["stride"], "pads": pads, "group": o["groups"]}
        return [helper.make_node("Conv", inputs + learned, [layer.name], layer.name, **options)]
    if layer.kind in ("max_pool", "avg_pool"):
        pads = [pair[0] for pair in o["padding"]] + [pair[1] for pair in o["padding"]]
        op = "MaxPool" if layer.kind == "max_pool" else "AveragePool"
        options = {"kernel_shape": o["kernel"], "strides": o["stride"], "pads": pads}
        return [helper.make_node(op, inputs, [layer.name], layer.name, **options)]
    if layer.kind == "dense":
        flat = helper.make_node("Flatten", inputs, [layer.name + "_in"], layer.name + "_in")
        gemm = helper.make_node("Gemm", [layer.name + "_in", *learned], [layer.name], layer.name, transB=1)
        return [flat, gemm]
    if layer.kind == "batch_norm":
        return [helper.make_node("BatchNormalization", inputs + learned, [layer.name], layer.name)]
    op = ACTIVATIONS[o["function"]] if layer.kind == "activation" else PLAIN[layer.kind]
    return [helper.make_node(op, inputs, [layer.name], layer.name)]


@pytest.fixture
def export(tmp_path: Path) -> Callable[[Graph], Path]:
    """Write a graph as an ONNX file with an open batch."""

    def write(graph: Graph) -> Path:
        nodes = [node for layer in graph.layers for node in _node(layer)]
        arrays = initial_weights(graph, 0).items()
        tensors = [numpy_helper.from_array(array, f"{layer}.{name}") for (layer, name), array in arrays]
        given = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", *graph.input_shape])
        result = helper.make_tensor_value_info(graph.layers[-1].name, TensorProto.FLOAT, None)
        made = helper.make_graph(nodes, graph.name, [given], [result], tensors)
        path = tmp_path / f"{graph.name}.onnx"
        save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path

    return write


@pytest.fixture
def write_onnx(tmp_path: Path) -> Callable[..., Path]:
    """Write an ONNX file of given nodes over one input `x`, with named weights."""

    def write(nodes: list[Any], shape: list[Any], weights: dict[str, np.ndarray], output: str = "y") -> Path:
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
        made = helper.make_graph(nodes, "test", [given], [result], tensors)
        path = tmp_path / "test.onnx"
        save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path

    return write
