"""BERT: an encoder that predicts masked tokens; the default is BERT-base, uncased, with its pooler.

J. Devlin et al., "BERT: pre-training of deep bidirectional transformers for language understanding", NAACL 2019.
109,482,240 parameters, which is the encoder with its pooler. So that all of them learn from masked tokens alone, the
pooler makes the output of the first position, and the predictions are the outputs times the token embedding, without
the further dense layer that BERT has before it. The two segments are the two halves of a sample.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import Graph
from steplab_worker.networks._transformer import Blocks, text_options, tokens

INPUT = (512,)
CLASSES = 2  # at least: how many tokens there are is an option
PARAMETERS = 109482240
OPTIONS = text_options(layers=12, width=768, heads=12, sequence=512, vocabulary=30522)


def build(
    input_shape: Sequence[int],
    classes: int,
    layers: int,
    width: int,
    heads: int,
    sequence: int,
    vocabulary: int,
    dropout: float,
) -> Graph:
    """BERT for samples of at least `sequence` tokens."""
    net = tokens("bert_base", input_shape, classes, sequence, vocabulary, "masked-token")
    net.add("embedding", "tokens", tokens=vocabulary, width=width)
    net.add("position_embedding", "positions")
    net.add("position_embedding", "segments", rows=2)
    net.add("layer_norm", "norm", epsilon=1e-12)
    net.dropout("dropout", dropout)
    blocks = Blocks(heads, "gelu", norm_first=False, epsilon=1e-12, dropout=dropout)
    for number in range(1, layers + 1):
        blocks.add(net, number)
    encoded = net.last
    net.add("part", "first", encoded, start=0, stop=1)
    net.dense("pooler", width)
    pooled = net.activation("pooled", "tanh")
    others = net.add("part", "others", encoded, start=1, stop=sequence)
    net.add("concat", "outputs", [pooled, others])
    net.tied_dense("logits", to="tokens")
    return net.graph()
