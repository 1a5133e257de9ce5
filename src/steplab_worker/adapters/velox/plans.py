"""Velox plans over bound buffers: how a layer's arithmetic is put to a relational engine.

A plan is prepared once. Its input columns are Arrow views of NumPy buffers, which Velox takes without copying, so
writing a new batch into the buffers and running the plan again computes the new batch.

The two formulations of a contraction (convolution or dense layer) with K products per output; figures of both and of
those that lost are in docs/frameworks.md:

columns   a column per product, a batch of rows per output channel: x0 * w[1] + x1 * w[2] + …, as a balanced tree,
          with the channel's weights as one constant array. Weights are data, not literals: the expression has K terms,
          not K times the channels, because Velox compiles it again for every run.
arrays    a row per (position, channel) with both operands as arrays: array_sum(zip_with(x, w, (a, b) -> a * b)).
          The weights lie flat, the position's window is repeated through a dictionary; the other way round is slower.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import pyarrow as pa
from pyvelox.arrow import to_arrow, to_velox
from pyvelox.plan_builder import PlanBuilder
from pyvelox.runner import LocalRunner

# Nanoseconds per term, per weight and per product, as benchmarks/velox_formulations.py finds them; they only decide
# which formulation is taken.
COLUMNS_COMPILE, COLUMNS_WEIGHT, COLUMNS_PRODUCT = 50_000.0, 6_000.0, 0.7
ARRAYS_PRODUCT = 4.5
# Products that the arrays formulation holds at once; more fall out of the cache and take three times as long.
BLOCK = 1 << 18


def cheaper(products: int, channels: int, positions: int) -> str:
    """The formulation that should take less time for so many products per output.

    >>> cheaper(products=144, channels=16, positions=10_000)
    'columns'
    >>> cheaper(products=4608, channels=512, positions=16)
    'arrays'
    """
    total = products * channels * positions
    columns = products * COLUMNS_COMPILE + products * channels * COLUMNS_WEIGHT + total * COLUMNS_PRODUCT
    return "columns" if columns < total * ARRAYS_PRODUCT else "arrays"


def column(values: np.ndarray) -> pa.Array:
    """A view of a contiguous float32 buffer as a column."""
    return pa.Array.from_buffers(pa.float32(), values.size, [None, pa.py_buffer(values)])


def lists(values: np.ndarray) -> pa.Array:
    """A view of a contiguous matrix as a column with one array per row."""
    return lists_of(values, np.arange(len(values) + 1) * values.shape[1])


def lists_of(values: np.ndarray, offsets: np.ndarray) -> pa.Array:
    """A view of a contiguous buffer as a column of arrays that begin at the offsets; the last ends the last."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), column(values.reshape(-1)))


def constant(value: pa.Array, rows: int) -> pa.Array:
    """One value for all rows, held once."""
    return pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), value)


def chosen(values: pa.Array, indices: np.ndarray) -> pa.Array:
    """The values at the indices, held once."""
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), values)


class Block:
    """A batch of rows: consecutive outputs of a plan, each of a channel."""

    def __init__(self, start: int, channels: np.ndarray, columns: Sequence[Tuple[str, pa.Array]]):
        self.start, self.channels, self.columns = start, channels, columns

    def record_batch(self, constants: Sequence[np.ndarray], operands: Sequence[np.ndarray]) -> pa.RecordBatch:
        """The columns, those of constants per channel (e0, e1, …) and of operands in the order of the rows (r0, …)."""
        columns, stop = list(self.columns), self.start + len(self.channels)
        for number, values in enumerate(constants):
            columns.append(("e%d" % number, self._of_rows(values)))
        for number, values in enumerate(operands):
            columns.append(("r%d" % number, column(values.reshape(-1)[self.start : stop])))
        return pa.RecordBatch.from_arrays([array for _, array in columns], names=[name for name, _ in columns])

    def _of_rows(self, values: np.ndarray) -> pa.Array:
        own = values.astype(np.float32)[self.channels]
        return constant(column(own[:1].copy()), len(own)) if (self.channels == self.channels[0]).all() else column(own)


class Plan:
    """Blocks of rows through a core expression and what follows it, prepared once and run many times."""

    def __init__(
        self,
        blocks: Sequence[Block],
        core: str,
        finish: str,
        constants: Sequence[np.ndarray] = (),
        operands: Sequence[np.ndarray] = (),
    ):
        batches = [block.record_batch(constants, operands) for block in blocks]
        also = ["e%d" % i for i in range(len(constants))] + ["r%d" % i for i in range(len(operands))]
        built = PlanBuilder().values([to_velox(batch) for batch in batches])
        built = built.project([core + " AS y", *also]).project([finish + " AS y"])
        self.node = built.get_plan_node()
        # Velox only borrows the memory of what Python holds.
        self.batches = batches

    def run(self, result: np.ndarray) -> None:
        """Execute, and put the rows into a contiguous result."""
        flat, start = result.reshape(-1), 0
        runner = LocalRunner(self.node)
        for vector in runner.execute():
            values = to_arrow(vector).field(0).to_numpy(zero_copy_only=False)
            flat[start : start + len(values)] = values
            start += len(values)
            # The runner owns this memory; a view of it that outlives the runner ends the process.
            del values, vector
        del runner
        if start != flat.size:
            raise RuntimeError("Velox gave %d values where %d were expected" % (start, flat.size))


def in_columns(x: np.ndarray, weights: np.ndarray) -> Tuple[List[Block], str]:
    """A contraction as columns: x is (groups, K, positions), weights (channels, K); rows by channel, then position."""
    groups, products, positions = x.shape
    shared = [[("x%d" % k, column(row)) for k, row in enumerate(group)] for group in x]
    blocks = []
    for o in range(len(weights)):
        own = constant(lists(np.ascontiguousarray(weights[o : o + 1])), positions)
        group = shared[o * groups // len(weights)]
        blocks.append(Block(o * positions, np.full(positions, o), [("w", own), *group]))
    return blocks, balanced(["(x%d * w[%d])" % (k, k + 1) for k in range(products)])


def in_arrays(x: np.ndarray, weights: np.ndarray) -> Tuple[List[Block], str]:
    """A contraction as arrays: x is (groups, positions, K), weights (channels, K); rows by group, position, channel."""
    blocks, start = [], 0
    for group, own in enumerate(np.split(weights, len(x))):
        values, first = lists(x[group]), group * len(own)
        repeated: Dict[Tuple[int, int], pa.Array] = {}  # one copy of the weights serves all blocks of the same shape
        for positions, channels in _tiles(x.shape[1], *own.shape):
            key = len(positions), int(channels[0])
            if key not in repeated:
                repeated[key] = lists(np.tile(own[channels], (len(positions), 1)))
            pairs = [("x", chosen(values, np.repeat(positions, len(channels)))), ("w", repeated[key])]
            blocks.append(Block(start, np.tile(first + channels, len(positions)), pairs))
            start += len(positions) * len(channels)
    return blocks, "CAST(array_sum(zip_with(x, w, (a, b) -> a * b)) AS REAL)"


def _tiles(positions: int, channels: int, products: int) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Positions by channels, cut in their order so that a tile's products stay in the cache."""
    wide = max(1, min(channels, BLOCK // products))
    high = max(1, BLOCK // (products * channels))
    for p in range(0, positions, high):
        for o in range(0, channels, wide):
            yield np.arange(p, min(p + high, positions)), np.arange(o, min(o + wide, channels))


def in_bins(x: np.ndarray, sizes: np.ndarray, channels: int, function: str) -> Tuple[List[Block], str]:
    """Pooling: x holds, for every row of (channel, batch, output), the elements of its bin; sizes are of one sample."""
    rows = x.size // int(sizes.sum()) * len(sizes)
    offsets = np.concatenate([[0], np.cumsum(np.tile(sizes, rows // len(sizes)))])
    block = Block(0, np.repeat(np.arange(channels), rows // channels), [("x", lists_of(x, offsets))])
    return [block], "CAST(%s(x) AS REAL)" % function


def unchanged(x: np.ndarray) -> Tuple[List[Block], str]:
    """The values themselves, (channels, positions), for element-wise layers that follow nothing."""
    return [Block(0, np.repeat(np.arange(len(x)), x.shape[1]), [("x", column(x))])], "x"


def balanced(terms: Sequence[str]) -> str:
    """The sum of the terms as a balanced tree, which keeps rounding errors and the depth of the expression small.

    >>> balanced(["a", "b", "c"])
    '((a + b) + c)'
    """
    level: List[Any] = list(terms)
    while len(level) > 1:
        pairs = ["(%s + %s)" % pair for pair in zip(level[::2], level[1::2])]
        level = pairs + level[len(level) & ~1 :]
    return level[0]
