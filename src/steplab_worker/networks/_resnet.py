"""What the residual networks share: stem, basic and bottleneck blocks, in two or three dimensions.

K. He et al., "Deep residual learning for image recognition", CVPR 2016. As in the common form of it, a bottleneck
carries its stride in the 3x3 convolution.
"""

from __future__ import annotations

from typing import Callable, Sequence

from steplab_worker.graph import ACTIVATIONS, Builder
from steplab_worker.options import Option

STEM = Option(
    "auto",
    "imagenet: 7x7 stride 2 and pooling; small: 3x3 stride 1, no pooling; auto: small below 64 pixels",
    levels=("auto", "imagenet", "small"),
)
IMAGE_OPTIONS = {
    "filters": Option(64, "filters of the first stage; each further one doubles", low=1, high=4096, shapes=False),
    "activation": Option("relu", "non-linearity", levels=ACTIVATIONS, shapes=False),
    "stem": STEM,
    "dropout": Option(0.0, "dropout rate before the classifier", low=0.0, high=0.99, shapes=False),
}
Block = Callable[[Builder, str, int, int, str], str]


def is_small(stem: str, input_shape: Sequence[int]) -> bool:
    """Whether the stem for small images (CIFAR) is to be used."""
    return stem == "small" or (stem == "auto" and min(input_shape[1:], default=0) < 64)


def image_stem(net: Builder, filters: int, activation: str, stem: str) -> None:
    """The first layers of a residual network for images."""
    if is_small(stem, net.input_shape):
        net.conv_norm("conv1", filters, 3, activation=activation)
        return
    net.conv_norm("conv1", filters, 7, stride=2, activation=activation)
    net.add("max_pool", "pool1", kernel=3, stride=2, padding=1)


def basic(net: Builder, name: str, filters: int, stride: int, activation: str, kernel: int = 3) -> str:
    """Two convolutions; the name of the last layer before the shortcut is added."""
    net.conv_norm(name + "_conv1", filters, kernel, stride, activation)
    return net.conv_norm(name + "_conv2", filters, kernel)


def bottleneck(net: Builder, name: str, filters: int, stride: int, activation: str) -> str:
    """Narrow, convolve, widen to four times the filters."""
    net.conv_norm(name + "_conv1", filters, 1, activation=activation)
    net.conv_norm(name + "_conv2", filters, 3, stride, activation)
    return net.conv_norm(name + "_conv3", 4 * filters, 1)


def residual(net: Builder, name: str, filters: int, stride: int, activation: str, block: Block) -> str:
    """A block and its shortcut, which is projected where the shape changes."""
    with net.block(name):
        shortcut = net.last
        main = block(net, name, filters, stride, activation)
        if net.shape(shortcut) != net.shape(main):
            net.last = shortcut
            shortcut = net.conv_norm(name + "_shortcut", net.shape(main)[0], 1, stride)
        net.add("add", name + "_add", [main, shortcut])
        return net.activation(name + "_act", activation)


def stages(net: Builder, filters: int, blocks: Sequence[int], activation: str, block: Block) -> None:
    """Stages of blocks, s1b1 being the first; each further stage halves the extents and doubles the filters."""
    for stage, number in enumerate(blocks):
        for i in range(number):
            stride = 2 if stage and not i else 1
            residual(net, "s%db%d" % (stage + 1, i + 1), filters << stage, stride, activation, block)


def classifier(net: Builder, classes: int, dropout: float) -> None:
    """Global pooling and the dense layer to the classes."""
    net.add("global_avg_pool", "pool")
    net.dropout("dropout", dropout)
    net.dense("classifier", classes)


def image_network(
    name: str,
    input_shape: Sequence[int],
    classes: int,
    blocks: Sequence[int],
    block: Block,
    filters: int,
    activation: str,
    stem: str,
    dropout: float,
) -> Builder:
    """A whole residual network for images."""
    net = Builder(name, input_shape)
    image_stem(net, filters, activation, stem)
    stages(net, filters, blocks, activation, block)
    classifier(net, classes, dropout)
    return net
