"""What training a network holds in memory, and the largest batch that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from steplab.api import display
from steplab.api.sources.networks import expect_blocks, shards_of, workload
from steplab.core.errors import InputError, nearest
from steplab.core.units import parse_size, size
from steplab.costs.memory import LayerMemory, Memory, largest_batch
from steplab.costs.memory import memory as held
from steplab.costs.network import OPTIMIZERS

__all__ = ["MemoryReport", "memory"]


@dataclass(frozen=True, repr=False)
class MemoryReport:
    """What a step of training holds: `memory` has it in bytes, layer by layer.

    `largest` is the largest batch whose peak fits into `within` bytes, 0 if none does; None if nobody asked.
    """

    memory: Memory
    within: int | None = None
    largest: int | None = None

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The totals in words: what, and how much."""
        memory = self.memory
        again = "; blocks recompute the rest" if memory.recompute else ""
        whole = f"{size(memory.gathered_bytes)} of whole parameters at once: two blocks', and those of none"
        gathered = [("gathered", whole)] if memory.shards > 1 else []
        part = f" of this worker, one of {memory.shards}" if memory.shards > 1 else ""
        lines = [
            ("parameters", f"{size(memory.parameter_bytes)}{part}"),
            ("gradients", f"{size(memory.gradient_bytes)}{part}"),
            ("optimiser state", f"{size(memory.state_bytes)} ({memory.optimizer})"),
            ("activations", f"{size(memory.activation_bytes)} kept for backward, as PyTorch keeps them{again}"),
            *gathered,
            ("peak", f"{size(memory.peak_bytes)} at once, beside the framework itself"),
        ]
        if self.within is not None:
            lines.append(("largest batch", f"{self.largest or 'none'} within {size(self.within)}"))
        return lines

    def document(self) -> dict[str, Any]:
        """What `steplab inspect --memory --json` prints."""
        return {**asdict(self.memory), "within_bytes": self.within, "largest_batch": self.largest}

    def __repr__(self) -> str:
        peak = size(self.memory.peak_bytes)
        return f"<{self.memory.network}: peak {peak}, batch {self.memory.batch}, {self.memory.optimizer}>"

    def _repr_html_(self) -> str:
        title = f"{self.memory.network}, batch {self.memory.batch}, {self.memory.optimizer}"
        rows = [memory_row(layer) for layer in self.memory.layers]
        return display.block(
            display.title(title),
            display.table(("layer", "kind", "parameters", "activations"), rows, left=2),
            display.table(("total", ""), self.lines, left=2),
        )


def memory_row(layer: LayerMemory) -> tuple[str, ...]:
    """A layer as a row of a table: name, kind, parameters, activations; nothing is a dash."""
    bytes_ = (layer.parameter_bytes, layer.activation_bytes)
    return layer.name, layer.kind, *(size(number) if number else "-" for number in bytes_)


def memory(
    network: str,
    batch: int = 1,
    *,
    optimizer: str = "sgd",
    recompute: bool = False,
    strategy: str = "sync",
    workers: int = 1,
    within: int | str | None = None,
    input_shape: Sequence[int] | None = None,
    classes: int | None = None,
    options: Mapping[str, str] | None = None,
) -> MemoryReport:
    """Count what training a built-in network holds in memory: parameters, gradients, state, activations.

    Args:
        network: A built-in network.
        batch: Samples in a batch, of one worker.
        optimizer: `sgd`, `momentum` or `adam`.
        recompute: Whether blocks keep their inputs only and run forward again in backward.
        strategy: `sync`, or `sharded`: the workers divide parameters, gradients and the optimiser's state among them.
        workers: How many there are; what is told is of one.
        within: Bytes, or a text such as `"24GB"`, for the largest batch that fits.
        input_shape: The shape of a sample; by default the network's usual.
        classes: The number of classes.
        options: Options of the network, such as `{"layers": "2"}`.
    """
    if optimizer not in OPTIMIZERS:
        raise InputError(f"there is no optimiser {optimizer!r}", hint=nearest(optimizer, OPTIMIZERS))
    shards = shards_of(strategy, workers)
    limit = parse_size(within) if isinstance(within, str) else within

    def at(samples: int) -> Memory:
        operations = workload(network, samples, input_shape, classes, options)
        if recompute:
            expect_blocks(operations)
        return held(operations, optimizer, recompute, shards)

    return MemoryReport(at(batch), limit, None if limit is None else largest_batch(at, limit))
