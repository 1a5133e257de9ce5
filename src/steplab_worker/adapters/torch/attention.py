"""Attention in PyTorch: its fused operator, and which of the operator's kernels that comes down to."""

from __future__ import annotations

from typing import Tuple

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend

from steplab_worker.graph import Graph, Shape, size


class Attention(nn.Module):
    """Multi-head self-attention over positions, with PyTorch's fused operator."""

    def __init__(self, heads: int, scale: float):
        super().__init__()
        self.heads, self.scale = heads, scale

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """What the queries find, in the layout of the values."""
        parts = [self.split(x) for x in (query, key, value)]
        mixed = functional.scaled_dot_product_attention(*parts, scale=self.scale)
        return mixed.transpose(2, 3).reshape(value.shape)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, channels, positions…) to (batch, heads, positions, channels of a head)."""
        parts = x.reshape(x.shape[0], self.heads, x.shape[1] // self.heads, -1)
        # The fused operator needs the channels side by side in memory.
        return parts.transpose(2, 3).contiguous()


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself, with PyTorch's fused operator."""

    def __init__(self, heads: int, causal: bool):
        super().__init__()
        self.heads, self.causal = heads, causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the positions find, of queries, keys and values side by side."""
        query, key, value = self.split(x)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return mixed.transpose(1, 2).flatten(2)

    def split(self, x: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        """Queries, keys and values, each (batch, heads, positions, features of a head)."""
        return x.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()


def kernel(graph: Graph, batch: int, device: torch.device, training: bool) -> str:
    """Which kernel the fused operator takes for the first attention of a graph, by PyTorch's own choice."""
    layer = next(layer for layer in graph.layers if layer.kind in ("attention", "self_attention"))
    heads = layer.options["heads"]
    shape = _head(layer.kind, graph.shape_of(layer.inputs[0]), heads)
    parts = [torch.empty((batch, heads, *shape), device=device, requires_grad=training) for _ in range(3)]
    chosen = SDPBackend(torch._fused_sdp_choice(*parts, is_causal=layer.options.get("causal", False)))
    return "plain" if chosen == SDPBackend.MATH else "fused: " + chosen.name.lower()


def _head(kind: str, shape: Shape, heads: int) -> Shape:
    """Positions and features of one head."""
    if kind == "self_attention":
        return shape[0], shape[1] // (3 * heads)
    return size(shape[1:]), shape[0] // heads
