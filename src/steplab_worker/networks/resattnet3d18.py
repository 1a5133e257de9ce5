"""3D-ResAttNet-18: an 18-layer residual network for volumes with self-attention in its blocks.

X. Zhang, L. Han, W. Zhu, L. Sun, D. Zhang, "An explainable 3D residual self-attention deep neural network for joint
atrophy localization and Alzheimer's disease diagnosis using structural MRI", IEEE J. Biomed. Health Inform. 26(11),
2022. Our attention has the form of H. Zhang et al., "Self-attention generative adversarial networks", ICML 2019: query
and key have an eighth of the channels, scores are not scaled, and the result is added to its input with a trainable
factor. That factor begins at 0.1, not at 0, so that the attention's weights have gradients from the first step on.

The scores are a matrix of positions by positions. A full brain volume leaves some 2,000 positions to the last stage but
15,000 to the one before (0.9 GB of scores per sample and block), so by default the last stage alone has attention.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import ACTIVATIONS, Builder, Graph
from steplab_worker.networks._resnet import basic, classifier, residual
from steplab_worker.options import Option

INPUT = (1, 64, 64, 64)
CLASSES = 2
PARAMETERS = 33797444
OPTIONS = {
    "filters": Option(64, "filters of the first stage; each further one doubles", low=8, high=1024),
    "kernel_size": Option(3, "kernel of all convolutions but shortcuts", low=1, high=16),
    "activation": Option("relu", "non-linearity", levels=ACTIVATIONS, shapes=False),
    "padding": Option(
        "same",
        "padding of the first convolution; blocks keep their extents for the shortcuts",
        levels=("same", "valid"),
    ),
    "stride": Option(2, "stride of the first convolution", low=1, high=16),
    "pool_size": Option(1, "window and stride of pooling after the first convolution; 1 is none", low=1, high=16),
    "attention": Option(1, "how many of the four stages, from the last, have self-attention", low=0, high=4),
    "dropout": Option(0.0, "dropout rate before the classifier", low=0.0, high=0.99, shapes=False),
}


def build(
    input_shape: Sequence[int],
    classes: int,
    filters: int,
    kernel_size: int,
    activation: str,
    padding: str,
    stride: int,
    pool_size: int,
    attention: int,
    dropout: float,
) -> Graph:
    """The network for volumes of any size (or images: it follows the dimensions of its input)."""

    def plain(net: Builder, name: str, filters: int, stride: int, activation: str) -> str:
        return basic(net, name, filters, stride, activation, kernel_size)

    def attentive(net: Builder, name: str, filters: int, stride: int, activation: str) -> str:
        return self_attention(net, name, plain(net, name, filters, stride, activation))

    net = Builder("resattnet3d18", input_shape)
    net.conv_norm("conv1", filters, kernel_size, stride, activation, padding=padding)
    if pool_size > 1:
        net.add("max_pool", "pool1", kernel=pool_size)
    for stage in range(4):
        block = attentive if stage >= 4 - attention else plain
        for i in (0, 1):
            step = 2 if stage and not i else 1
            residual(net, "s%db%d" % (stage + 1, i + 1), filters << stage, step, activation, block)
    classifier(net, classes, dropout)
    return net.graph()


def self_attention(net: Builder, name: str, features: str) -> str:
    """The features + factor · attention(features), query, key and value being 1x1x1 convolutions of the features."""
    channels = net.shape(features)[0]
    parts = (("query", max(1, channels // 8)), ("key", max(1, channels // 8)), ("value", channels))
    convolutions = [net.conv("%s_%s" % (name, part), width, 1, inputs=features) for part, width in parts]
    net.add("attention", name + "_attention", convolutions, scale=1.0)
    factor = net.add("scale", name + "_factor", initial=0.1)
    return net.add("add", name + "_attended", [features, factor])
