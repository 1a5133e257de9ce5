"""A multi-layer perceptron on flattened images: two hidden layers of 512 units by default."""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import ACTIVATIONS, Builder, Graph
from steplab_worker.options import Option

INPUT = (1, 28, 28)
CLASSES = 10
PARAMETERS = 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10
OPTIONS = {
    "units": Option(512, "units of each hidden layer", low=1, high=65536, shapes=False),
    "hidden_layers": Option(2, "number of hidden layers", low=1, high=100, shapes=False),
    "activation": Option("relu", "non-linearity", levels=ACTIVATIONS, shapes=False),
    "dropout": Option(0.0, "dropout rate after each hidden layer", low=0.0, high=0.99, shapes=False),
}


def build(
    input_shape: Sequence[int], classes: int, units: int, hidden_layers: int, activation: str, dropout: float
) -> Graph:
    """An MLP for samples of any shape."""
    net = Builder("mlp", input_shape)
    net.add("flatten", "flatten")
    for number in range(1, hidden_layers + 1):
        net.dense("dense%d" % number, units)
        net.activation("act%d" % number, activation)
        net.dropout("dropout%d" % number, dropout)
    net.dense("dense%d" % (hidden_layers + 1), classes)
    return net.graph()
