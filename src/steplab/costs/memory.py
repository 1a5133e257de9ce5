"""What a training step holds in memory: parameters, gradients, optimiser state, activations kept for backward.

Activations are counted as PyTorch's eager mode keeps them, array by array (`steplab.costs.kept_arrays`). The peak
follows the backward pass, in which kept arrays go and gradients come. Apart from it stands what the C library's
allocator keeps of freed arrays in a process on a CPU, and what kernels add (`steplab.costs.step_arrays`): estimates.
What a framework itself takes (code, thread pools) is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steplab.costs.exchange import block_parameters
from steplab.costs.kept_arrays import LOSS, WEIGHT, Array, KeptArrays
from steplab.costs.mixed_precision import FLOAT32
from steplab.costs.network import BYTES, OPTIMIZERS, cost
from steplab.costs.operation import Workload
from steplab.costs.step_arrays import Beside, beside
from steplab_worker.graph import INPUT

MAX_BATCH = 1 << 31  # the most that a command takes


@dataclass(frozen=True)
class LayerMemory:
    """One layer: its parameters, and the bytes of activations that are kept of it."""

    name: str
    kind: str
    parameter_bytes: int
    activation_bytes: int


@dataclass(frozen=True)
class Memory:
    """What training takes at one batch size, in bytes; `peak_bytes` is the most that is held at once.

    `activation_bytes` are all arrays kept for backward, `weight_copy_bytes` those of them that are weights in bfloat16.
    """

    network: str
    batch: int
    optimizer: str
    parameter_bytes: int
    gradient_bytes: int
    state_bytes: int
    activation_bytes: int
    peak_bytes: int
    beside: Beside | None  # the peak, in a process on a CPU; None: nobody knows a step's arrays
    layers: tuple[LayerMemory, ...]
    recompute: bool = False  # whether blocks run forward again in backward
    shards: int = 1  # workers that parameters, gradients and state are divided among
    bucket_bytes: int = 0  # gradients once more, in the messages in which they are exchanged
    gathered_bytes: int = 0  # parameters that are there whole meanwhile, beside this worker's part
    precision: str = FLOAT32
    weight_copy_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """What a process on a CPU grows by: the peak, and if it is known what kernels add and its allocator keeps."""
        return self.peak_bytes + (self.beside.bytes if self.beside else 0)


def memory(
    workload: Workload,
    optimizer: str = "sgd",
    recompute: bool = False,
    shards: int = 1,
    precision: str = FLOAT32,
    exchanges: bool = False,
) -> Memory:
    """What a step of training holds, in one worker; `shards` of them divide what is learned among them.

    If it `exchanges` whole gradients with others, they are there once more: PyTorch's DistributedDataParallel copies
    them into its buckets (its documentation, `gradient_as_bucket_view`).

    >>> from steplab.costs.builtin import builtin
    >>> memory(builtin("lenet5", batch=64), "adam").state_bytes == 2 * 4 * 61706
    True
    """
    counted = cost(workload)
    parameters = -(-BYTES * counted.parameters // shards)
    state = OPTIMIZERS[optimizer].state * parameters
    gathered = _gathered(block_parameters(counted, workload)) if shards > 1 else 0
    arrays = KeptArrays(workload, recompute, precision)
    own = {layer.name: BYTES * layer.parameters for layer in counted.layers}
    kinds = {INPUT: INPUT} | {op.name: op.kind for op in workload.operations} | {LOSS: workload.loss}
    kept = arrays.by_layer()
    buckets = parameters if exchanges else 0
    peak = parameters + state + gathered + buckets + _peak(arrays, own, shards)
    layers = tuple(LayerMemory(name, kind, own.get(name, 0), kept.get(name, 0)) for name, kind in kinds.items())
    return Memory(
        network=workload.name,
        batch=workload.batch,
        optimizer=optimizer,
        parameter_bytes=parameters,
        gradient_bytes=parameters,
        state_bytes=state,
        activation_bytes=arrays.held(),
        peak_bytes=peak,
        layers=layers,
        recompute=recompute,
        shards=shards,
        bucket_bytes=buckets,
        gathered_bytes=gathered,
        precision=precision,
        weight_copy_bytes=arrays.held(part=WEIGHT),
        beside=beside(workload, arrays, optimizer, peak - gathered - buckets, shards),
    )


def _gathered(parts: Mapping[str, int]) -> int:
    """The whole parameters that are there at once: those of no block, of a block, and of the next one."""
    blocks = sorted((bytes_ for block, bytes_ in parts.items() if block), reverse=True)
    return parts.get("", 0) + sum(blocks[:2])


def largest_batch(at: Callable[[int], Memory], within: int) -> int:
    """The largest batch with which training, as it is at a batch size, stays within so many bytes; 0 if none does."""

    def fits(batch: int) -> bool:
        return at(batch).total_bytes <= within

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
    if Array(INPUT, "output") not in arrays.sizes:  # nobody keeps the batch itself, but it is there
        held += arrays.output_bytes(INPUT)
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
        highest = max(highest, held + gradients.bytes + sum(map(arrays.output_bytes, ends)))
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
