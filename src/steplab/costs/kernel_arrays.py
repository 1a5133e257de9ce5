"""Arrays that PyTorch's kernels on a CPU have for a moment beside what they compute.

oneDNN's convolutions reorder what they take and give into blocks of channels (oneDNN's developer guide, "Understanding
Memory Formats": nChw16c where there is AVX-512); fewer input channels than a block are taken as they are. Attention's
gradients of queries, keys and values become one array, which is then laid out as its input.
"""

from __future__ import annotations

from dataclasses import dataclass

from steplab.costs.network import BYTES
from steplab.costs.operation import Operation
from steplab_worker.graph import Shape, size

CHANNELS = 16  # of a block


@dataclass(frozen=True)
class Moment:
    """Bytes of arrays beside a result: those that go before it is there, and those that go after."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


def beside_output(op: Operation, item: int) -> Moment:
    """Beside what an operation gives, of elements of so many bytes."""
    return Moment(_input(op, item), _output(op, item)) if op.kind == "conv" else Moment()


def beside_input_gradient(op: Operation, item: int) -> Moment:
    """Beside the gradient of its input."""
    if op.kind == "self_attention":
        part = item * size(op.output_shape)
        return Moment((part,) * 3, (3 * part,))
    if op.kind != "conv":
        return Moment()
    weights = sum(BYTES * size(weight.shape) for weight in op.weights)
    return Moment((weights,), (*_output(op, item), item * _in_blocks(op.input_shapes[0])))


def beside_weight_gradient(op: Operation, item: int) -> Moment:
    """Beside the gradients of its weights."""
    return beside_output(op, item)


def _output(op: Operation, item: int) -> tuple[int, ...]:
    return (item * _in_blocks(op.output_shape),)


def _input(op: Operation, item: int) -> tuple[int, ...]:
    return (item * _in_blocks(op.input_shapes[0]),) if op.input_shapes[0][1] >= CHANNELS else ()


def _in_blocks(shape: Shape) -> int:
    """Elements with the channels rounded up to whole blocks.

    >>> _in_blocks((2, 6, 3)), _in_blocks((2, 32, 3))
    (96, 192)
    """
    batch, channels, *extents = shape
    return batch * -(-channels // CHANNELS) * CHANNELS * size(tuple(extents))
