"""What a training step holds in memory: parameters, gradients, optimiser state, activations kept for backward.

Activations are counted as PyTorch's eager mode keeps them, array by array (`steplab.costs.kept_arrays`). The peak
follows the backward pass, in which kept arrays go and gradients come. What a framework itself takes (code, thread
pools, scratch space of its kernels) is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steplab.costs.exchange import block_parameters
from steplab.costs.kept_arrays import LOSS, KeptArrays
from steplab.costs.network import BYTES, OPTIMIZERS, cost
from steplab.costs.operation import Workload
from steplab_worker.graph import INPUT

MAX_BATCH = 1 << 24


@dataclass(frozen=True)
class LayerMemory:
    """One layer: its parameters, and the bytes of activations that are kept of it."""

    name: str
    kind: str
    parameter_bytes: int
    activation_bytes: int


@dataclass(frozen=True)
class Memory:
    """What training takes at one batch size, in bytes; `peak_bytes` is the most that is held at once."""

    network: str
    batch: int
    optimizer: str
    parameter_bytes: int
    gradient_bytes: int
    state_bytes: int
    activation_bytes: int
    peak_bytes: int
    layers: tuple[LayerMemory, ...]
    recompute: bool = False  # whether blocks run forward again in backward
    shards: int = 1  # workers that parameters, gradients and state are divided among
    gathered_bytes: int = 0  # parameters that are there whole meanwhile, beside this worker's part


def memory(workload: Workload, optimizer: str = "sgd", recompute: bool = False, shards: int = 1) -> Memory:
    """What a step of training holds, in one worker; `shards` of them divide what is learned among them.

    >>> from steplab.costs.builtin import builtin
    >>> memory(builtin("lenet5", batch=64), "adam").state_bytes == 2 * 4 * 61706
    True
    """
    counted = cost(workload)
    parameters = -(-BYTES * counted.parameters // shards)
    state = OPTIMIZERS[optimizer].state * parameters
    gathered = _gathered(block_parameters(counted, workload)) if shards > 1 else 0
    arrays = KeptArrays(workload, recompute)
    own = {layer.name: BYTES * layer.parameters for layer in counted.layers}
    kinds = {INPUT: INPUT} | {op.name: op.kind for op in workload.operations} | {LOSS: workload.loss}
    kept = arrays.by_layer()
    layers = tuple(LayerMemory(name, kind, own.get(name, 0), kept.get(name, 0)) for name, kind in kinds.items())
    return Memory(
        network=workload.name,
        batch=workload.batch,
        optimizer=optimizer,
        parameter_bytes=parameters,
        gradient_bytes=parameters,
        state_bytes=state,
        activation_bytes=arrays.held(),
        peak_bytes=parameters + state + gathered + _peak(arrays, own, shards),
        layers=layers,
        recompute=recompute,
        shards=shards,
        gathered_bytes=gathered,
    )


def _gathered(parts: Mapping[str, int]) -> int:
    """The whole parameters that are there at once: those of no block, of a block, and of the next one."""
    blocks = sorted((bytes_ for block, bytes_ in parts.items() if block), reverse=True)
    return parts.get("", 0) + sum(blocks[:2])


def largest_batch(at: Callable[[int], Memory], within: int) -> int:
    """The largest batch with which training, as it is at a batch size, peaks within so many bytes; 0 if none."""

    def fits(batch: int) -> bool:
        return at(batch).peak_bytes <= within

    low, high = 0, 1
    while high <= MAX_BATCH and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _peak(arrays: KeptArrays, parameters: Mapping[str, int], shards: int) -> int:
    """The most bytes of kept arrays, gradients and what is computed at one moment of the backward pass."""
    held, gradients = arrays.held(), _Gradients(shards)
    logits = BYTES * arrays.elements[arrays.operations[-1].name]
    highest = held + 2 * logits  # the loss gives the gradients of the shares, then of the outputs
    left = arrays.uses()
    held -= arrays.freed(LOSS, left)
    for op in reversed(arrays.operations):
        block = arrays.recomputed.get(op.block)
        if block and op is block[-1]:
            held += arrays.held(op.block)
        ends = (op.name, *(name for name in op.inputs if name != INPUT))
        gradients.add(op.block, parameters[op.name])
        highest = max(highest, held + gradients.bytes + BYTES * sum(arrays.elements[name] for name in ends))
        held -= arrays.freed(op.name, left)
        if block and op is block[0]:
            held -= arrays.freed(op.block, left)
    return highest


@dataclass
class _Gradients:
    """The gradients so far: those of a block are whole until the block is done, then this worker keeps its part."""

    shards: int
    block: str = ""
    kept: int = 0
    current: int = 0
    apart: int = 0  # of no block, and whole until the end

    def add(self, block: str, bytes_: int) -> None:
        if block != self.block:
            self.kept += self.current // self.shards
            self.block, self.current = block, 0
        if block:
            self.current += bytes_
        else:
            self.apart += bytes_

    @property
    def bytes(self) -> int:
        return self.kept + self.current + self.apart
