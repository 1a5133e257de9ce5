"""A dense autoencoder that learns to give its input back through a narrow middle (squared error)."""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import ACTIVATIONS, Builder, Graph, size
from steplab_worker.options import Option

INPUT = (1, 28, 28)
CLASSES = 10
PARAMETERS = 2 * (784 * 128 + 128 * 64 + 64 * 32) + 128 + 64 + 32 + 64 + 128 + 784
OPTIONS = {
    "units": Option(128, "units of the first hidden layer; each further one halves", low=4, high=65536, shapes=False),
    "code": Option(32, "units of the middle", low=1, high=65536, shapes=False),
    "activation": Option("relu", "non-linearity", levels=ACTIVATIONS, shapes=False),
}


def build(input_shape: Sequence[int], classes: int, units: int, code: int, activation: str) -> Graph:
    """An autoencoder for samples of any shape; the number of classes plays no part."""
    net = Builder("autoencoder", input_shape, loss="reconstruction")
    net.add("flatten", "flatten")
    widths = (units, units // 2, code, units // 2, units)
    for number, width in enumerate(widths, start=1):
        net.dense("dense%d" % number, width)
        net.activation("act%d" % number, activation)
    net.dense("dense6", size(input_shape))
    return net.graph()
