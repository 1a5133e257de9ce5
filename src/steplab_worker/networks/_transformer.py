"""What the transformers share: options, and blocks of self-attention and two dense layers.

A. Vaswani et al., "Attention is all you need", NIPS 2017. A block normalises after each sum, as there and in BERT, or
before each part, as GPT-2 and the vision transformers do. Queries, keys and values come from one dense layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Sequence

from steplab_worker.graph import Builder, Graph, GraphError
from steplab_worker.options import Option

DROPOUT = Option(0.0, "dropout rate of the embedding and of each block's two parts", low=0.0, high=0.99, shapes=False)


def text_options(layers: int, width: int, heads: int, sequence: int, vocabulary: int) -> Dict[str, Option]:
    """The options of a transformer of tokens, with these defaults."""
    return {
        **_sizes(layers, width, heads),
        "sequence": Option(sequence, "tokens of a sample", low=2, high=1 << 20),
        "vocabulary": Option(vocabulary, "tokens that there are, at least those of the data", low=2, high=1 << 24),
        "dropout": DROPOUT,
    }


def image_options(layers: int, width: int, heads: int) -> Dict[str, Option]:
    """The options of a transformer of images, with these defaults."""
    return {
        **_sizes(layers, width, heads),
        "patch": Option(16, "pixels along the side of a patch", low=1, high=1024),
        "dropout": DROPOUT,
    }


def _sizes(layers: int, width: int, heads: int) -> Dict[str, Option]:
    return {
        "layers": Option(layers, "blocks", low=1, high=1024, shapes=False),
        "width": Option(width, "features of each position", low=1, high=65536),
        "heads": Option(heads, "heads of the attention, which divide the width", low=1, high=1024),
    }


@dataclass(frozen=True)
class Blocks:
    """How a network's blocks look; the first of their two dense layers is four times as wide as the block."""

    heads: int
    function: str
    norm_first: bool
    causal: bool = False
    epsilon: float = 1e-5
    dropout: float = 0.0

    def add(self, net: Builder, number: int) -> str:
        """One block, behind what is there."""
        name = "b%d" % number
        with net.block(name):
            self._residual(net, name, "1", self._attention)
            return self._residual(net, name, "2", self._dense)

    def _residual(self, net: Builder, name: str, number: str, part: Callable[[Builder, str, int], str]) -> str:
        """A part of a block, added to what it came from."""
        before, width = net.last, net.shape(net.last)[-1]
        norm = name + "_norm" + number
        if self.norm_first:
            net.add("layer_norm", norm, epsilon=self.epsilon)
        part(net, name, width)
        net.dropout(name + "_dropout" + number, self.dropout)
        total = net.add("add", name + "_add" + number, [before, net.last])
        return total if self.norm_first else net.add("layer_norm", norm, epsilon=self.epsilon)

    def _attention(self, net: Builder, name: str, width: int) -> str:
        net.dense(name + "_qkv", 3 * width)
        net.add("self_attention", name + "_attention", heads=self.heads, causal=self.causal)
        return net.dense(name + "_mixed", width)

    def _dense(self, net: Builder, name: str, width: int) -> str:
        net.dense(name + "_dense1", 4 * width)
        net.activation(name + "_act", self.function)
        return net.dense(name + "_dense2", width)


def tokens(name: str, input_shape: Sequence[int], classes: int, sequence: int, vocabulary: int, loss: str) -> Builder:
    """The beginning of a network of tokens, if the data fit it; longer samples are cut."""
    if len(input_shape) != 1:
        raise GraphError("it takes tokens, samples of one dimension, not of shape %r" % (tuple(input_shape),))
    if input_shape[0] < sequence:
        raise GraphError("samples of %d tokens are shorter than sequence = %d" % (input_shape[0], sequence))
    if classes > vocabulary:
        raise GraphError("vocabulary = %d is less than the %d tokens of the data" % (vocabulary, classes))
    return Builder(name, (sequence,), loss)


def vision(
    name: str, input_shape: Sequence[int], classes: int, layers: int, width: int, heads: int, patch: int, dropout: float
) -> Graph:
    """A vision transformer: patches as a sequence behind a class token, of which alone the classifier is told."""
    net = Builder(name, input_shape)
    net.conv("patches", width, patch, patch)
    net.add("sequence", "sequence")
    net.add("class_token", "class_token")
    net.add("position_embedding", "positions")
    net.dropout("dropout", dropout)
    blocks = Blocks(heads, "gelu", norm_first=True, epsilon=1e-6, dropout=dropout)
    for number in range(1, layers + 1):
        blocks.add(net, number)
    net.add("layer_norm", "norm", epsilon=1e-6)
    net.add("part", "class", start=0, stop=1)
    net.add("flatten", "flatten")
    net.dense("classifier", classes)
    return net.graph()
