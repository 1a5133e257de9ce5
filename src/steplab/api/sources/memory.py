"""What training a network holds in memory, and the largest batch that fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from steplab.api import display
from steplab.api.sources.networks import expect_blocks, shards_of, workload
from steplab.core.errors import InputError, allowed, nearest
from steplab.core.own_code import is_file, is_own
from steplab.core.units import parse_size, size
from steplab.costs.memory import LayerMemory, Memory, largest_batch
from steplab.costs.memory import memory as held
from steplab.costs.mixed_precision import COUNTED, FLOAT32
from steplab.costs.network import OPTIMIZERS
from steplab.runner.environments.user_networks import OwnPlace, SeenMemory, see_memory

__all__ = ["MemoryReport", "memory"]


@dataclass(frozen=True, repr=False)
class MemoryReport:
    """What a step of training holds: `memory` has it in bytes, layer by layer.

    `largest` is the largest batch that fits into `within` bytes, with what an allocator keeps; 0 if none does, None if
    nobody asked.
    """

    memory: Memory
    within: int | None = None
    largest: int | None = None

    @property
    def title(self) -> str:
        """What is told of: the network and how it is trained."""
        memory = self.memory
        numbers = memory.precision if memory.precision == FLOAT32 else f"{FLOAT32} and {memory.precision} mixed"
        blocks = ", blocks recomputed" if memory.recompute else ""
        part = f", one of {memory.shards} workers that divide the parameters" if memory.shards > 1 else ""
        return f"{memory.network}, batch {memory.batch}, training with {memory.optimizer}, {numbers}{blocks}{part}"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The totals in words: what, and how much."""
        memory, several = self.memory, self.memory.bucket_bytes > 0
        copies = f"{size(memory.weight_copy_bytes)} are weights in {memory.precision}"
        again = "; blocks recompute the rest" if memory.recompute else ""
        whole = f"{size(memory.gathered_bytes)} of whole parameters at once: two blocks', and those of none"
        gathered = [("gathered", whole)] if memory.shards > 1 else []
        part = f" of this worker, one of {memory.shards}" if memory.shards > 1 else ""
        lines = [
            ("parameters", f"{size(memory.parameter_bytes)}{part}"),
            ("gradients", f"{size(memory.gradient_bytes)}{part}"),
            ("optimiser state", f"{size(memory.state_bytes)} ({memory.optimizer})"),
            ("activations", f"{size(memory.activation_bytes)} kept for backward, as PyTorch keeps them{again}"),
            *([("of these", copies)] if memory.weight_copy_bytes else []),
            *gathered,
            *(
                [("buckets", f"{size(memory.bucket_bytes)}: gradients once more, as they are exchanged")]
                if several
                else []
            ),
            ("peak", f"{size(memory.peak_bytes)} at once, beside the framework itself"),
            *_with_allocator(memory),
        ]
        if self.within is not None:
            lines.append(("largest batch", f"{self.largest or 'none'} within {size(self.within)}"))
        return lines

    def document(self) -> dict[str, Any]:
        """What `steplab inspect --memory --json` prints."""
        counted = {**asdict(self.memory), "total_bytes": self.memory.total_bytes}
        return {**counted, "within_bytes": self.within, "largest_batch": self.largest}

    def __repr__(self) -> str:
        peak = size(self.memory.peak_bytes)
        return f"<{self.memory.network}: peak {peak}, batch {self.memory.batch}, {self.memory.optimizer}>"

    def _repr_html_(self) -> str:
        rows = [memory_row(layer) for layer in self.memory.layers]
        return display.block(
            display.title(self.title),
            display.table(("layer", "kind", "parameters", "activations"), rows, left=2),
            display.table(("total", ""), self.lines, left=2),
        )


def _with_allocator(memory: Memory) -> list[tuple[str, str]]:
    """What comes to the peak in a process on a CPU, where a step's arrays are known."""
    beside = memory.beside
    if beside is None:
        return [("allocator", "not known of a network of one's own: on a CPU, a process grows by more than the peak")]
    ends = f"{size(beside.allocator_low)} to {size(beside.allocator_high)}"
    return [
        *([("kernels", f"{size(beside.kernel_bytes)} more for a moment, on a CPU")] if beside.kernel_bytes else []),
        ("allocator", f"{size(beside.allocator_bytes)} ({ends}) freed but kept, on a CPU"),
        ("total", f"{size(memory.total_bytes)}: what a process on a CPU grows by; estimated, not measured"),
    ]


def memory_row(layer: LayerMemory) -> tuple[str, ...]:
    """A layer as a row of a table: name, kind, parameters, activations; nothing is a dash."""
    bytes_ = (layer.parameter_bytes, layer.activation_bytes)
    return layer.name, layer.kind, *(size(number) if number else "-" for number in bytes_)


def memory(
    network: str,
    batch: int = 1,
    *,
    optimizer: str = "sgd",
    precision: str = FLOAT32,
    recompute: bool = False,
    strategy: str = "sync",
    workers: int = 1,
    within: int | str | None = None,
    input_shape: Sequence[int] | None = None,
    classes: int | None = None,
    options: Mapping[str, str] | None = None,
    modules: Path | str | None = None,
    environment: str = "",
    dataset: str = "",
) -> MemoryReport:
    """Tell what training a network holds in memory: parameters, gradients, state, activations.

    Of a built-in network it is counted. A step of one's own network is run, at this batch size and at twice that, and
    what it holds is seen; other batch sizes follow from the two.

    Args:
        network: A built-in network, or `module:PACKAGE.MODULE:FUNCTION`.
        batch: Samples in a batch, of one worker.
        optimizer: `sgd`, `momentum` or `adam`.
        precision: `float32`, or `bfloat16`: mixed, with parameters, gradients and state in float32.
        recompute: Whether blocks keep their inputs only and run forward again in backward.
        strategy: `sync`, or `sharded`: the workers divide parameters, gradients and the optimiser's state among them.
        workers: How many there are; what is told is of one.
        within: Bytes, or a text such as `"24GB"`, for the largest batch that fits.
        input_shape: The shape of a sample; by default the network's usual.
        classes: The number of classes.
        options: Options of the network, such as `{"layers": "2"}`.
        modules: The folder in which a module is looked for, by default the current one.
        environment: The environment in which a module runs, by default PyTorch's own.
        dataset: A data set of one's own, `module:…`, whose samples a module is given.
    """
    if optimizer not in OPTIMIZERS:
        raise InputError(f"there is no optimiser {optimizer!r}", hint=nearest(optimizer, OPTIMIZERS))
    if precision not in COUNTED:
        raise InputError(f"what {precision!r} holds is not counted", where="precision", hint=allowed(COUNTED))
    shards = shards_of(strategy, workers)
    limit = parse_size(within) if isinstance(within, str) else within
    place = OwnPlace(None if modules is None else Path(modules), environment, dataset)
    if is_file(network):
        raise InputError("what training holds is not known of an ONNX file: it only infers here", where=network)
    if is_own(network):
        if precision != FLOAT32:
            raise InputError("a step of one's own network is run in float32", where="precision")
        if recompute or shards > 1:
            raise InputError("which blocks a network of one's own has is not known", where=network)
        if options or classes:
            raise InputError("classes and options are for built-in networks", where=network)
        seen = see_memory(network, (batch, 2 * batch), input_shape, place)
        return _report(lambda samples: _own(network, optimizer, samples, workers > 1, *seen), batch, limit)

    def at(samples: int) -> Memory:
        operations = workload(network, samples, input_shape, classes, options, place)
        if recompute:
            expect_blocks(operations)
        return held(operations, optimizer, recompute, shards, precision, exchanges=workers > shards)

    return _report(at, batch, limit)


def _report(at: Callable[[int], Memory], batch: int, limit: int | None) -> MemoryReport:
    return MemoryReport(at(batch), limit, None if limit is None else largest_batch(at, limit))


def _own(network: str, optimizer: str, batch: int, exchanges: bool, first: SeenMemory, second: SeenMemory) -> Memory:
    """What a step of one's own network holds at a batch size, on the line through what was seen at two.

    Gradients, state and buckets are of what is learned; frozen parameters are there, too.
    """

    def between(low: int, high: int) -> int:
        return max(0, round(low + (high - low) * (batch - first.batch) / (second.batch - first.batch)))

    kept = {layer.name: layer.activation_bytes for layer in second.layers}
    layers = tuple(
        replace(layer, activation_bytes=between(layer.activation_bytes, kept.get(layer.name, 0)))
        for layer in first.layers
    )
    parameters = sum(layer.parameter_bytes for layer in layers)
    state, buckets = OPTIMIZERS[optimizer].state * first.learned_bytes, first.learned_bytes * exchanges
    return Memory(
        network=network, batch=batch, optimizer=optimizer,
        parameter_bytes=parameters, gradient_bytes=first.learned_bytes, state_bytes=state,
        activation_bytes=sum(layer.activation_bytes for layer in layers),
        peak_bytes=parameters + state + buckets + between(first.working_bytes, second.working_bytes),
        beside=None, layers=layers, bucket_bytes=buckets,
    )  # fmt: skip
