"""ResNet-50: sixteen bottleneck residual blocks in four stages.

K. He et al., "Deep residual learning for image recognition", CVPR 2016. Images below 64 pixels (CIFAR) get that paper's
small stem, a 3x3 convolution without stride and pooling; from 64 pixels on (TinyImageNet, ImageNet) the usual one.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import ACTIVATIONS, Graph
from steplab_worker.networks._resnet import STEM, bottleneck, image_network
from steplab_worker.options import Option

INPUT = (3, 224, 224)
CLASSES = 1000
PARAMETERS = 25557032
OPTIONS = {
    "filters": Option(64, "filters of the first stage; each further one doubles", low=1, high=4096, shapes=False),
    "activation": Option("relu", "non-linearity", levels=ACTIVATIONS, shapes=False),
    "stem": STEM,
    "dropout": Option(0.0, "dropout rate before the classifier", low=0.0, high=0.99, shapes=False),
}


def build(input_shape: Sequence[int], classes: int, filters: int, activation: str, stem: str, dropout: float) -> Graph:
    """ResNet-50 for images of any size."""
    blocks = (3, 4, 6, 3)
    net = image_network("resnet50", input_shape, classes, blocks, bottleneck, filters, activation, stem, dropout)
    return net.graph()
