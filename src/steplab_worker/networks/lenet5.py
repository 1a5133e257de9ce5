"""LeNet-5: two convolutions, three dense layers.

Y. LeCun et al., "Gradient-based learning applied to document recognition", Proc. IEEE 86(11), 1998. The classic form
pads the first convolution (28x28 MNIST images instead of 32x32) and has 61,706 parameters; the options are those that
the performance-modelling study in docs/sources.md varies.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import ACTIVATIONS, Builder, Graph
from steplab_worker.options import Option

INPUT = (1, 28, 28)
CLASSES = 10
PARAMETERS = 61706
OPTIONS = {
    "filters": Option(
        6, "filters of the first convolution; the second has 8/3 of them", low=1, high=4096, shapes=False
    ),
    "kernel_size": Option(5, "kernel of both convolutions", low=1, high=64),
    "pool_size": Option(2, "window and stride of both poolings", low=1, high=64),
    "stride": Option(1, "stride of both convolutions", low=1, high=64),
    "padding": Option("classic", "classic pads the first convolution only", levels=("classic", "valid", "same")),
    "activation": Option("tanh", "non-linearity", levels=ACTIVATIONS, shapes=False),
    "pool": Option("avg", "kind of pooling", levels=("avg", "max"), shapes=False),
    "dropout": Option(0.0, "dropout rate before the last dense layer", low=0.0, high=0.99, shapes=False),
}


def build(
    input_shape: Sequence[int],
    classes: int,
    filters: int,
    kernel_size: int,
    pool_size: int,
    stride: int,
    padding: str,
    activation: str,
    pool: str,
    dropout: float,
) -> Graph:
    """LeNet-5 for images of any size that its windows fit."""
    first, second = {"classic": ("same", "valid")}.get(padding, (padding, padding))
    net = Builder("lenet5", input_shape)
    for number, maps, pads in ((1, filters, first), (2, max(1, round(filters * 8 / 3)), second)):
        net.conv("conv%d" % number, maps, kernel_size, stride, pads)
        net.activation("act%d" % number, activation)
        net.add(pool + "_pool", "pool%d" % number, kernel=pool_size)
    net.add("flatten", "flatten")
    for number, units in ((3, 120), (4, 84)):
        net.dense("dense%d" % number, units)
        net.activation("act%d" % number, activation)
    net.dropout("dropout", dropout)
    net.dense("dense5", classes)
    return net.graph()
