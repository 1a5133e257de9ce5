"""What recomputation costs: the operations of a block that run forward again in backward, and their FLOPs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from steplab.costs.kept_arrays import RULES, storages
from steplab.costs.network import LayerCost, NetworkCost, cost
from steplab.costs.operation import Operation, Workload


def recomputing(workload: Workload) -> NetworkCost:
    """The cost of a workload whose blocks keep their inputs alone: backward has what runs forward again in it.

    >>> from steplab.costs.builtin import builtin
    >>> plain, again = cost(builtin("vit_tiny")).totals, recomputing(builtin("vit_tiny")).totals
    >>> round((again.backward_flops - plain.backward_flops) / plain.forward_flops, 2)
    0.7
    """
    counted, again = cost(workload), recomputed(workload)
    return replace(counted, layers=tuple(_again(layer) if layer.name in again else layer for layer in counted.layers))


def recomputed(workload: Workload) -> set[str]:
    """The operations that run again: those of whose outputs a block's backward needs something, and those before them.

    What follows the last of them in a block is not computed again, neither by PyTorch, which stops there, nor by XLA,
    which removes it.
    """
    blocks = (list(run) for block, run in itertools.groupby(workload.operations, lambda op: op.block) if block)
    return {name for run in blocks for name in _needed(run, storages(workload.operations))}


def _needed(run: Sequence[Operation], places: dict[str, str]) -> set[str]:
    kept: set[str] = set()
    needed: set[str] = set()
    for op in run:
        keeps = RULES[op.kind](op)
        kept |= {places[op.inputs[at]] for at in keeps.inputs}
        needed |= {op.name} if keeps.output or keeps.elements or keeps.bytes else set()
    for op in reversed(run):
        if op.name in needed or places[op.name] in kept:
            needed |= {op.name, *op.inputs}
    return needed & {op.name for op in run}


def _again(layer: LayerCost) -> LayerCost:
    """The layer with its forward pass in its backward pass, too."""
    totals = layer.totals
    if totals is None:
        return layer
    names = ("flops", "matmul_flops", "bytes_read", "bytes_written")
    both = {
        f"backward_{name}": getattr(totals, f"backward_{name}") + getattr(totals, f"forward_{name}") for name in names
    }
    return replace(layer, totals=replace(totals, **both))
