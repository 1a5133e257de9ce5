"""AlexNet: five convolutions, three dense layers; the single-tower form with 61.1 million parameters.

A. Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv:1404.5997, 2014. From 64 pixels
on (TinyImageNet, ImageNet) the usual stem, 11x11 stride 4; below (CIFAR) a 3x3 convolution without stride, because the
poolings would run out of pixels. Adaptive pooling to 6x6 keeps the dense layers the same at every size.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import ACTIVATIONS, Builder, Graph
from steplab_worker.networks._resnet import is_small
from steplab_worker.options import Option

INPUT = (3, 224, 224)
CLASSES = 1000
PARAMETERS = 61100840
OPTIONS = {
    "activation": Option("relu", "non-linearity", levels=ACTIVATIONS, shapes=False),
    "dropout": Option(0.5, "dropout rate before the first two dense layers", low=0.0, high=0.99, shapes=False),
    "stem": Option(
        "auto",
        "imagenet: 11x11 stride 4; small: 3x3 stride 1; auto: small below 64 pixels",
        levels=("auto", "imagenet", "small"),
    ),
}


def build(input_shape: Sequence[int], classes: int, activation: str, dropout: float, stem: str) -> Graph:
    """AlexNet for images of any size."""
    net = Builder("alexnet", input_shape)
    kernel, stride, padding = (3, 1, 1) if is_small(stem, input_shape) else (11, 4, 2)
    convolutions = ((64, kernel, stride, padding), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1))
    for number, (filters, kernel, stride, padding) in enumerate(convolutions, start=1):
        net.conv("conv%d" % number, filters, kernel, stride, padding)
        net.activation("act%d" % number, activation)
        if number in (1, 2, 5):
            net.add("max_pool", "pool%d" % number, kernel=3, stride=2)
    net.add("adaptive_avg_pool", "pool", outputs=6)
    net.add("flatten", "flatten")
    for number in (6, 7):
        net.dropout("dropout%d" % number, dropout)
        net.dense("dense%d" % number, 4096)
        net.activation("act%d" % number, activation)
    net.dense("dense8", classes)
    return net.graph()
