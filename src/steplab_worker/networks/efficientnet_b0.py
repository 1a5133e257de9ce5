"""EfficientNet-B0: sixteen inverted residual blocks with depthwise convolutions and squeeze-excite.

M. Tan, Q. V. Le, "EfficientNet: rethinking model scaling for convolutional neural networks", ICML 2019; squeeze-excite
from J. Hu et al., CVPR 2018; stochastic depth from G. Huang et al., ECCV 2016. Images below 64 pixels (CIFAR) get a
stem without stride, so that the last blocks still see more than one pixel.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import ACTIVATIONS, Builder, Graph
from steplab_worker.networks._resnet import classifier, is_small
from steplab_worker.options import Option

INPUT = (3, 224, 224)
CLASSES = 1000
PARAMETERS = 5288548
OPTIONS = {
    "activation": Option("silu", "non-linearity", levels=ACTIVATIONS, shapes=False),
    "dropout": Option(0.2, "dropout rate before the classifier", low=0.0, high=0.99, shapes=False),
    "drop_path": Option(
        0.2, "rate of stochastic depth, reached linearly at the last block", low=0.0, high=0.99, shapes=False
    ),
    "stem": Option(
        "auto",
        "imagenet: stride 2; small: stride 1; auto: small below 64 pixels",
        levels=("auto", "imagenet", "small"),
    ),
}
# Table 1 of the paper: expansion, kernel, stride of the first block, filters, blocks.
STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
BLOCKS = sum(stage[-1] for stage in STAGES)


def build(
    input_shape: Sequence[int], classes: int, activation: str, dropout: float, drop_path: float, stem: str
) -> Graph:
    """EfficientNet-B0 for images of any size."""
    net = Builder("efficientnet_b0", input_shape)
    net.conv_norm("stem", 32, 3, 1 if is_small(stem, input_shape) else 2, activation)
    done = 0
    for stage, (expansion, kernel, stride, filters, blocks) in enumerate(STAGES, start=1):
        for block in range(1, blocks + 1):
            name, rate = "s%db%d" % (stage, block), drop_path * done / BLOCKS
            with net.block(name):
                inverted(net, name, expansion, kernel, stride if block == 1 else 1, filters, activation, rate)
            done += 1
    net.conv_norm("head", 1280, 1, activation=activation)
    classifier(net, classes, dropout)
    return net.graph()


def inverted(
    net: Builder, name: str, expansion: int, kernel: int, stride: int, filters: int, activation: str, rate: float
) -> None:
    """Widen, convolve each channel, weigh the channels, narrow; a shortcut where the shape stays."""
    shortcut = net.last
    channels = net.shape(shortcut)[0]
    if expansion > 1:
        net.conv_norm(name + "_expand", channels * expansion, 1, activation=activation)
    wide = channels * expansion
    net.conv_norm(name + "_depthwise", wide, kernel, stride, activation, groups=wide)
    squeeze_excite(net, name, max(1, channels // 4), activation)
    net.conv_norm(name + "_project", filters, 1)
    if net.shape(net.last) == net.shape(shortcut):
        if rate:
            net.add("drop_path", name + "_drop", rate=rate)
        net.add("add", name + "_add", [net.last, shortcut])


def squeeze_excite(net: Builder, name: str, squeezed: int, activation: str) -> None:
    """Weigh each channel by a gate computed from the means of all channels."""
    features = net.last
    net.add("global_avg_pool", name + "_squeeze")
    net.dense(name + "_reduce", squeezed)
    net.activation(name + "_reduce_act", activation)
    net.dense(name + "_excite", net.shape(features)[0])
    gate = net.activation(name + "_gate", "sigmoid")
    net.add("multiply", name + "_weigh", [features, gate])
