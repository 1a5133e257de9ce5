"""The neutral graph as a module of blocks, which can be recomputed or sharded one by one.

A recomputed block keeps its inputs only, and runs forward again when backward needs more: T. Chen et al., "Training
deep nets with sublinear memory cost", arXiv:1604.06174, by `torch.utils.checkpoint` as its documentation recommends it
(`use_reentrant=False`).
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from steplab_worker.adapters.torch.layers import GraphModule
from steplab_worker.graph import INPUT, Graph, Segment


class BlockwiseModule(GraphModule):
    """Runs a graph block by block: one child per block, and one per layer that is in none."""

    def __init__(self, graph: Graph, recompute: bool = False):
        super().__init__(graph)
        self.blockwise = graph.segments()
        finished = {name: done for name, _, done in self.steps}
        for segment in self.blockwise:
            if segment.block:
                layers = {layer.name: self._modules.pop(layer.name) for layer in segment.layers}
                self.add_module(segment.block, Block(segment, layers, finished, recompute))

    @property
    def blocks(self) -> List["Block"]:
        """The blocks, in their order."""
        return [child for child in self.children() if isinstance(child, Block)]

    def layers(self) -> Dict[str, nn.Module]:
        """The module of each layer, in any order."""
        inner = {name: layer for block in self.blocks for name, layer in block.named_children()}
        return dict(inner, **{name: child for name, child in self.named_children() if not isinstance(child, Block)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output of the last layer."""
        values = {INPUT: x}
        for segment in self.blockwise:
            if segment.block:
                inputs = [values[name] for name in segment.inputs]
                values.update(zip(segment.outputs, self._modules[segment.block](*inputs)))
                continue
            for layer in segment.layers:
                values[layer.name] = self._modules[layer.name](*[values[name] for name in layer.inputs])
        return values[self.steps[-1][0]]


class Block(nn.Module):
    """The layers of one block."""

    def __init__(
        self,
        segment: Segment,
        layers: Mapping[str, nn.Module],
        finished: Mapping[str, Sequence[str]],
        recompute: bool,
    ):
        super().__init__()
        self.segment, self.finished, self.recompute = segment, finished, recompute
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.norms = [layers[layer.name] for layer in segment.layers if layer.kind == "batch_norm"]

    def forward(self, *inputs: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        """What later layers need of the block."""
        if not (self.recompute and self.training):
            return self._run(*inputs)
        second: Dict[str, Any] = {}
        if self.norms:  # their running means have seen the batch already
            second["context_fn"] = lambda: (contextlib.nullcontext(), _unmoved(self.norms))
        return checkpoint(self._run, *inputs, use_reentrant=False, **second)

    def _run(self, *inputs: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        values: Dict[str, torch.Tensor] = dict(zip(self.segment.inputs, inputs))
        for layer in self.segment.layers:
            values[layer.name] = self._modules[layer.name](*[values[name] for name in layer.inputs])
            for name in self.finished[layer.name]:
                del values[name]
        return tuple(values[name] for name in self.segment.outputs)


@contextlib.contextmanager
def _unmoved(norms: Sequence[nn.Module]) -> Iterator[None]:
    """A context in which batch normalisations leave their running values alone."""
    before: List[Tuple[Any, torch.Tensor]] = [(norm.momentum, norm.num_batches_tracked.clone()) for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, (momentum, batches) in zip(norms, before):
            norm.momentum = momentum
            norm.num_batches_tracked.copy_(batches)
