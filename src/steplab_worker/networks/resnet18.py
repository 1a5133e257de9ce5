"""ResNet-18: eight basic residual blocks in four stages.

K. He et al., "Deep residual learning for image recognition", CVPR 2016. Images below 64 pixels (CIFAR) get that paper's
small stem, a 3x3 convolution without stride and pooling; from 64 pixels on (TinyImageNet, ImageNet) the usual one.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import Graph
from steplab_worker.networks._resnet import IMAGE_OPTIONS, basic, image_network

INPUT = (3, 224, 224)
CLASSES = 1000
PARAMETERS = 11689512
OPTIONS = IMAGE_OPTIONS


def build(input_shape: Sequence[int], classes: int, filters: int, activation: str, stem: str, dropout: float) -> Graph:
    """ResNet-18 for images of any size."""
    blocks = (2, 2, 2, 2)
    net = image_network("resnet18", input_shape, classes, blocks, basic, filters, activation, stem, dropout)
    return net.graph()
