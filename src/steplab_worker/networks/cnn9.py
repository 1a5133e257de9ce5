"""A plain CNN: seven 3x3 convolutions, flatten, one dense layer.

The network of the inference comparison in docs/sources.md (Velox, PyTorch, TensorFlow on CIFAR-10): valid convolutions
3→16→16→32→32→64→64→1, ReLU, 324 values, 10 classes, 75,907 parameters. `batch_norm`, `residual` and the widths are what
that comparison wished to add.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import ACTIVATIONS, Builder, Graph, GraphError
from steplab_worker.options import Option

INPUT = (3, 32, 32)
CLASSES = 10
PARAMETERS = 448 + 2320 + 4640 + 9248 + 18496 + 36928 + 577 + 0 + 3250
OPTIONS = {
    "filters": Option(
        16,
        "filters of the first two convolutions; the next pairs have two and four times",
        low=1,
        high=4096,
        shapes=False,
    ),
    "kernel_size": Option(3, "kernel of all convolutions", low=1, high=64),
    "padding": Option("valid", "padding of all convolutions", levels=("valid", "same")),
    "activation": Option("relu", "non-linearity", levels=ACTIVATIONS, shapes=False),
    "batch_norm": Option(False, "batch normalisation after each convolution", levels=(False, True), shapes=False),
    "residual": Option(
        False, "shortcut over the second convolution of each width; needs padding same", levels=(False, True)
    ),
}


def build(
    input_shape: Sequence[int],
    classes: int,
    filters: int,
    kernel_size: int,
    padding: str,
    activation: str,
    batch_norm: bool,
    residual: bool,
) -> Graph:
    """The plain CNN for images of any size that its seven windows fit; the dense layer grows with the image."""
    if residual and padding != "same":
        raise GraphError("cnn9: residual needs padding 'same', or the shortcuts do not fit")
    net = Builder("cnn9", input_shape)
    widths = (filters, filters, 2 * filters, 2 * filters, 4 * filters, 4 * filters, 1)
    for number, width in enumerate(widths, start=1):
        shortcut = net.last
        net.conv("conv%d" % number, width, kernel_size, padding=padding)
        if batch_norm:
            net.add("batch_norm", "norm%d" % number)
        if residual and number in (2, 4, 6):
            net.add("add", "add%d" % number, [net.last, shortcut])
        net.activation("act%d" % number, activation)
    net.add("flatten", "flatten")
    net.dense("dense", classes)
    return net.graph()
