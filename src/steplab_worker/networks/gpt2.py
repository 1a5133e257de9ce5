"""GPT-2: a decoder of causal attention that predicts the next token; the default is GPT-2 small.

A. Radford et al., "Language models are unsupervised multitask learners", OpenAI, 2019. 124,439,808 parameters: the
output projection is the token embedding once more.
"""

from __future__ import annotations

from typing import Sequence

from steplab_worker.graph import Graph
from steplab_worker.networks._transformer import Blocks, text_options, tokens

INPUT = (1024,)
CLASSES = 2  # at least: how many tokens there are is an option
PARAMETERS = 124439808
OPTIONS = text_options(layers=12, width=768, heads=12, sequence=1024, vocabulary=50257)


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
    """GPT-2 for samples of at least `sequence` tokens."""
    net = tokens("gpt2", input_shape, classes, sequence, vocabulary, "next-token")
    net.add("embedding", "tokens", tokens=vocabulary, width=width)
    net.add("position_embedding", "positions")
    net.dropout("dropout", dropout)
    blocks = Blocks(heads, "gelu_tanh", norm_first=True, causal=True, dropout=dropout)
    for number in range(1, layers + 1):
        blocks.add(net, number)
    net.add("layer_norm", "norm")
    net.tied_dense("logits", to="tokens")
    return net.graph()
