"""The table from kind of layer to counting function.

Conventions. 1 multiply-add = 2 FLOPs; every other elementary operation (add, divide, compare, square root, exp,
tanh) = 1. `matmul` holds convolutions and matrix products, `other` the rest; biases are in `other`. Traffic is the
least there can be: every operand read once, every result written once, nothing kept between operations. The work of one
operation in the backward pass is the gradient of its weights and of those inputs that have something learnable before
them: the first layer's input gradient is not computed. docs/costs.md lists all formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from steplab.costs.operation import Operation
from steplab_worker.graph import Shape, size
from steplab_worker.layers import adaptive_bins


@dataclass(frozen=True)
class Counts:
    """What one operation costs: FLOPs of both passes; elements read, written, and held for the backward pass."""

    matmul: int = 0
    other: int = 0
    matmul_backward: int = 0
    other_backward: int = 0
    read: int = 0
    written: int = 0
    read_backward: int = 0
    written_backward: int = 0
    kept: int = 0


Needs = tuple[bool, ...]  # per input: whether its gradient is needed
Counting = Callable[[Operation, Needs], Counts]


def linear(op: Operation, needs: Needs, products: int) -> Counts:
    """A layer that multiplies its input by its weight; each gradient takes as many products as the forward pass."""
    x, y = size(op.input_shapes[0]), size(op.output_shape)
    learned, bias = sum(size(weight.shape) for weight in op.weights), y if op.weight("bias") else 0
    gradients = int(needs[0]) + (1 if op.weight("weight") else 0)
    kernel = size(_kernel(op))
    return Counts(
        matmul=products,
        other=bias,
        matmul_backward=gradients * products,
        other_backward=bias,
        read=x + max(learned, kernel),
        written=y,
        read_backward=y + x + (kernel if needs[0] else 0),
        written_backward=learned + (x if needs[0] else 0),
        kept=y,
    )


def _kernel(op: Operation) -> Shape:
    return op.weight("weight") or op.input_shapes[1]


def conv(op: Operation, needs: Needs) -> Counts:
    """2 · outputs · (channels/groups) · kernel."""
    return linear(op, needs, 2 * size(op.output_shape) * size(_kernel(op)[1:]))


def conv_transpose(op: Operation, needs: Needs) -> Counts:
    """2 · inputs · (filters/groups) · kernel; weight (channels, filters/groups, *kernel)."""
    return linear(op, needs, 2 * size(op.input_shapes[0]) * size(_kernel(op)[1:]))


def dense(op: Operation, needs: Needs) -> Counts:
    """2 · outputs · features."""
    return linear(op, needs, 2 * size(op.output_shape) * _kernel(op)[-1])


def matmul(op: Operation, needs: Needs) -> Counts:
    """2 · outputs · inner extent, of two computed matrices."""
    a, b = (size(shape) for shape in op.input_shapes[:2])
    y, products = size(op.output_shape), 2 * size(op.output_shape) * op.input_shapes[0][-1]
    read = y + (b if needs[0] else 0) + (a if needs[1] else 0)
    written = (a if needs[0] else 0) + (b if needs[1] else 0)
    added = y if op.options.get("added") else 0  # to something that is there already
    return Counts(products, added, sum(needs[:2]) * products, 0, a + b + added, y, read, written, y)


def attention(op: Operation, needs: Needs) -> Counts:
    """2 · scores · (query + value channels per head), and 6 per score for scaling and softmax.

    Scores stay on chip in the traffic, as fused operators keep them; they are recomputed or held, not counted twice.
    """
    query, key, _ = op.input_shapes
    heads: int = op.options["heads"]
    scores = query[0] * heads * size(query[2:]) * size(key[2:])
    by_query, by_value = 2 * scores * query[1] // heads, 2 * scores * op.output_shape[1] // heads
    x, y = sum(map(size, op.input_shapes)), size(op.output_shape)
    gradients = (needs[0] + needs[1]) * by_query + (needs[2] + (needs[0] or needs[1])) * by_value
    return Counts(by_query + by_value, 6 * scores, gradients, 5 * scores, x, y, x + 2 * y, x, y)


def self_attention(op: Operation, needs: Needs) -> Counts:
    """As `attention`, of queries, keys and values that come as one; a causal mask saves nothing here.

    The scores that a mask hides are counted: the plain form computes them, PyTorch's counter counts them, and so does
    the usual closed formula (A. Chowdhery et al., "PaLM", JMLR 24, 2023, appendix B).
    """
    batch, positions, width = op.output_shape
    scores = batch * op.options["heads"] * positions**2
    products, back = 4 * batch * positions**2 * width, int(needs[0])
    x, y = size(op.input_shapes[0]), size(op.output_shape)
    return Counts(products, 6 * scores, 2 * back * products, 5 * back * scores, x, y, back * (x + 2 * y), back * x, y)


def embedding(op: Operation, needs: Needs) -> Counts:
    """No arithmetic: rows are read; backward one addition per output, into the rows that were read."""
    x, y, learned = size(op.input_shapes[0]), size(op.output_shape), sum(size(weight.shape) for weight in op.weights)
    return Counts(other_backward=y, read=x + y, written=y, read_backward=x + y, written_backward=learned, kept=y)


def class_token(op: Operation, needs: Needs) -> Counts:
    """Copies, and the token's row for each sample; backward one addition per element of that row and sample."""
    (x,), y, learned = (
        map(size, op.input_shapes),
        size(op.output_shape),
        sum(size(weight.shape) for weight in op.weights),
    )
    return Counts(0, 0, 0, y - x, x + learned, y, y, x * needs[0] + learned, y)


def _elementwise(forward: int, backward: int) -> Counting:
    """So many FLOPs per output; the backward pass reads the output's gradient and one held array."""

    def count(op: Operation, needs: Needs) -> Counts:
        x, y = sum(map(size, op.input_shapes)), size(op.output_shape)
        if not any(needs):
            return Counts(other=forward * y, read=x, written=y, kept=y)
        return Counts(0, forward * y, 0, backward * y, x, y, 2 * y, x, y)

    return count


ACTIVATIONS: dict[str, tuple[int, int]] = {
    "relu": (1, 1),
    "leaky_relu": (2, 1),
    "tanh": (1, 3),
    "sigmoid": (4, 3),
    "silu": (5, 8),
    "hard_sigmoid": (4, 2),
    "hard_swish": (5, 4),
    "elu": (3, 2),
    "gelu": (5, 8),
    "gelu_tanh": (9, 14),
    "glu": (5, 8),
    "softplus": (3, 5),
    "mish": (5, 10),
    "log_sigmoid": (3, 5),
    "prelu": (2, 2),
}


def activation(op: Operation, needs: Needs) -> Counts:
    """A few FLOPs per element, by function."""
    return _elementwise(*ACTIVATIONS[op.options["function"]])(op, needs)


def norm(op: Operation, needs: Needs) -> Counts:
    """8 per element: mean 1, variance 3, normalise 2, scale and shift 2; backward 10."""
    y, learned = size(op.output_shape), sum(size(weight.shape) for weight in op.weights)
    state = sum(map(size, op.buffers))
    return Counts(0, 8 * y, 0, 10 * y, y + learned + state, y + state, 2 * y + learned, y * needs[0] + learned, y)


def _pool(op: Operation, needs: Needs, work: int) -> Counts:
    x, y = size(op.input_shapes[0]), size(op.output_shape)
    back = int(needs[0])
    return Counts(0, work, 0, back * work, x, y, back * y, back * x, y)


def avg_pool(op: Operation, needs: Needs) -> Counts:
    """The window's elements per output: additions and one division."""
    return _pool(op, needs, size(op.output_shape) * size(op.options["kernel"]))


def max_pool(op: Operation, needs: Needs) -> Counts:
    """The window's elements − 1 comparisons per output; backward one addition per output, to where the maximum was."""
    x, y, back = size(op.input_shapes[0]), size(op.output_shape), int(needs[0])
    work = y * (size(op.options["kernel"]) - 1)
    return Counts(0, work, 0, back * y, x, y, 2 * back * y, back * x, y)


def global_avg_pool(op: Operation, needs: Needs) -> Counts:
    """One per input: additions and a division."""
    return _pool(op, needs, size(op.input_shapes[0]))


def reduce(op: Operation, needs: Needs) -> Counts:
    """So many per input as the operation says: squares and sums of a variance, exponentials and sums."""
    return _pool(op, needs, op.options["per_input"] * size(op.input_shapes[0]))


def adaptive_avg_pool(op: Operation, needs: Needs) -> Counts:
    """The elements of all windows, which may overlap."""
    covered = size(op.output_shape[:2])
    for extent, outputs in zip(op.input_shapes[0][2:], op.options["outputs"], strict=True):
        covered *= sum(stop - start for start, stop in adaptive_bins(extent, outputs))
    return _pool(op, needs, covered)


def add(op: Operation, needs: Needs) -> Counts:
    """One addition per output and further input; the backward pass hands the gradient on."""
    y = size(op.output_shape)
    terms = max(2, len(op.input_shapes) + len(op.weights))  # one alone is added to a constant
    learned = sum(size(weight.shape) for weight in op.weights)
    read = sum(map(size, op.input_shapes)) + learned
    summed = y if learned else 0
    return Counts(0, (terms - 1) * y, 0, summed, read, y, summed, learned, y)


def multiply(op: Operation, needs: Needs) -> Counts:
    """One per output; backward one per output and needed input, and one more for an input that was broadcast."""
    y = size(op.output_shape)
    factors = [(size(shape), need) for shape, need in zip(op.input_shapes, needs, strict=True)]
    factors += [(size(weight.shape), True) for weight in op.weights]
    wanted = [extent for extent, need in factors if need]
    total = sum(extent for extent, _ in factors)
    work = sum(y if extent == y else 2 * y for extent in wanted)
    return Counts(0, y, 0, work, total, y, (y + total) if wanted else 0, sum(wanted), y)


def move(op: Operation, needs: Needs) -> Counts:
    """No arithmetic, but elements are copied, and their gradients back."""
    x, y, back = sum(map(size, op.input_shapes)), size(op.output_shape), int(any(needs))
    return Counts(read=x, written=y, read_backward=back * y, written_backward=back * x, kept=y)


def upsample(op: Operation, needs: Needs) -> Counts:
    """Copies; backward one addition per output."""
    x, y, back = size(op.input_shapes[0]), size(op.output_shape), int(needs[0])
    return Counts(0, 0, 0, back * y, x, y, back * y, back * x, y)


def view(op: Operation, needs: Needs) -> Counts:
    """Nothing: the same elements under another shape."""
    return Counts()


COUNTING: dict[str, Counting] = {
    "conv": conv,
    "conv_transpose": conv_transpose,
    "dense": dense,
    "matmul": matmul,
    "attention": attention,
    "max_pool": max_pool,
    "avg_pool": avg_pool,
    "adaptive_avg_pool": adaptive_avg_pool,
    "global_avg_pool": global_avg_pool,
    "reduce": reduce,
    "batch_norm": norm,
    "layer_norm": norm,
    "activation": activation,
    "softmax": _elementwise(5, 4),
    "dropout": _elementwise(1, 1),
    "drop_path": _elementwise(1, 1),
    "add": add,
    "multiply": multiply,
    "scale": multiply,
    "elementwise": _elementwise(1, 1),
    "concat": move,
    "move": move,
    "upsample": upsample,
    "flatten": view,
    "reshape": view,
    "embedding": embedding,
    "position_embedding": add,
    "class_token": class_token,
    "sequence": move,
    "part": move,
    "self_attention": self_attention,
    "tied_dense": dense,
}
