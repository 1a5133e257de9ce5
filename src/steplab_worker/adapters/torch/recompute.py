"""Activation checkpointing in PyTorch: a block keeps its inputs only, and runs forward again when backward needs more.

T. Chen et al., "Training deep nets with sublinear memory cost", arXiv:1604.06174, by `torch.utils.checkpoint` as its
documentation recommends it (`use_reentrant=False`).
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from steplab_worker.graph import INPUT, Segment


def recomputed(module: Any, x: torch.Tensor) -> torch.Tensor:
    """The output of a GraphModule's last layer, its blocks checkpointed."""
    values = {INPUT: x}
    for segment in module.blockwise:
        inputs = [values[name] for name in segment.inputs]
        if segment.block:
            outputs = checkpoint(_run, module, segment, *inputs, use_reentrant=False, **_second(module, segment))
        else:
            outputs = _run(module, segment, *inputs)
        values.update(zip(segment.outputs, outputs))
    return values[module.description.layers[-1].name]


def _run(module: Any, segment: Segment, *inputs: torch.Tensor) -> Tuple[torch.Tensor, ...]:
    """What a segment gives for its inputs."""
    values: Dict[str, torch.Tensor] = dict(zip(segment.inputs, inputs))
    for layer in segment.layers:
        values[layer.name] = module._modules[layer.name](*[values[name] for name in layer.inputs])
        for name in module.finished[layer.name]:
            del values[name]
    return tuple(values[name] for name in segment.outputs)


def _second(module: Any, segment: Segment) -> Dict[str, Any]:
    """How a block runs the second time: its running means have seen the batch already."""
    norms = [module._modules[layer.name] for layer in segment.layers if layer.kind == "batch_norm"]
    return {"context_fn": lambda: (contextlib.nullcontext(), _unmoved(norms))} if norms else {}


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
