"""What an operation keeps for its gradient, as PyTorch's eager mode does, and which arrays that makes.

An operation keeps those inputs and outputs that its gradient is computed from, several operations may keep one array,
and views are no arrays of their own. A block that is recomputed keeps its inputs alone; the arrays of its operations
are there only while its backward runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from steplab.core.errors import InputError
from steplab.costs.mixed_precision import FLOAT32, Mixed
from steplab.costs.network import BYTES
from steplab.costs.operation import Operation, Workload
from steplab_worker.graph import INPUT, size

LOSS = "loss"
LABEL = 8  # bytes of a label, and of the place of a maximum
WEIGHT = "weight"  # the part of a layer that is a cast copy of what it learned
RANDOM_STATE = 5056  # bytes of PyTorch's random state, which a block notes before it runs


@dataclass(frozen=True)
class Keeps:
    """What an operation keeps for its gradient: some of its inputs, its output, and arrays of its own.

    Those are so many `elements` in the precision that it computes in, and bytes that are the same in each precision.
    """

    inputs: tuple[int, ...] = ()
    output: bool = False
    elements: int = 0
    bytes: int = 0


Rule = Callable[[Operation], Keeps]


def _always(*inputs: int, output: bool = False) -> Rule:
    return lambda op: Keeps(inputs, output)


def _conv(op: Operation) -> Keeps:
    """Its input; one that is padded unequally is copied first."""
    pads = op.options.get("padding", ())
    if all(before == after for before, after in pads):
        return Keeps((0,))
    batch, channels, *extents = op.input_shapes[0]
    padded = [extent + sum(pair) for extent, pair in zip(extents, pads, strict=True)]
    return Keeps(elements=size((batch, channels, *padded)))


def _batch_norm(op: Operation) -> Keeps:
    return Keeps((0,), bytes=2 * BYTES * op.output_shape[1])


def _layer_norm(op: Operation) -> Keeps:
    return Keeps((0,), bytes=2 * BYTES * size(op.output_shape[:-1]))


def _activation(op: Operation) -> Keeps:
    """Some gradients follow from the output, the others from the input."""
    return Keeps(output=True) if op.options["function"] in ("relu", "tanh", "sigmoid") else Keeps((0,))


def _max_pool(op: Operation) -> Keeps:
    return Keeps((0,), bytes=LABEL * size(op.output_shape))


def _dropout(op: Operation) -> Keeps:
    """The factors of the elements; of whole samples, and the input that they multiply."""
    return Keeps(elements=size(op.output_shape)) if op.options["rate"] else Keeps()


def _drop_path(op: Operation) -> Keeps:
    return Keeps(elements=op.output_shape[0]) if op.options["rate"] else Keeps()


def _self_attention(op: Operation) -> Keeps:
    """The fused kernel keeps a number for each query instead of its scores."""
    batch, positions, _ = op.output_shape
    return Keeps((0,), output=True, bytes=BYTES * batch * op.options["heads"] * positions)


def _attention(op: Operation) -> Keeps:
    """Queries, keys and values are copied head by head, and so is what they find."""
    batch, positions = op.output_shape[0], size(op.output_shape[2:])
    copied = sum(map(size, op.input_shapes)) + size(op.output_shape)
    return Keeps(elements=copied, bytes=BYTES * batch * op.options["heads"] * positions)


RULES: dict[str, Rule] = {
    "conv": _conv,
    "dense": _always(0),
    "tied_dense": _always(0),
    "max_pool": _max_pool,
    "avg_pool": _always(0),
    "adaptive_avg_pool": _always(0),
    "global_avg_pool": _always(),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "activation": _activation,
    "dropout": _dropout,
    "drop_path": _drop_path,
    "add": _always(),
    "multiply": _always(0, 1),
    "scale": _always(0),
    "concat": _always(),
    "attention": _attention,
    "self_attention": _self_attention,
    "flatten": _always(),
    "reshape": _always(),
    "upsample": _always(),
    "embedding": _always(0),
    "position_embedding": _always(),
    "class_token": _always(),
    "sequence": _always(),
    "part": _always(),
}
VIEWS = ("flatten", "reshape", "sequence", "part")


@dataclass(frozen=True)
class Array:
    """An array that is kept: of a layer its output, what is its own, or a cast copy of its weight.

    In a block that is recomputed, it is of that block.
    """

    layer: str
    part: str
    block: str = ""


class KeptArrays:
    """The arrays that a forward pass keeps: how large each is, and which operations keep it."""

    def __init__(self, workload: Workload, recompute: bool = False, precision: str = FLOAT32) -> None:
        unknown = sorted({op.kind for op in workload.operations} - set(RULES))
        if unknown:
            hint = "it is known of the built-in networks' layers"
            raise InputError(
                f"what {', '.join(unknown)} keeps for backward is not known", where=workload.name, hint=hint
            )
        self.operations = workload.operations
        self.elements = {INPUT: workload.batch * size(workload.input_shape)}
        self.elements |= {op.name: size(op.output_shape) for op in workload.operations}
        self.mixed = Mixed(workload.operations, precision)
        self.storages = storages(workload.operations)
        self.sizes: dict[Array, int] = {}
        self.keepers: dict[str, list[Array]] = {}
        self.recomputed: dict[str, list[Operation]] = {}  # the operations of each block that runs forward again
        groups = itertools.groupby(workload.operations, lambda op: op.block if recompute else "")
        self.runs = [(block, list(run)) for block, run in groups]
        for block, run in self.runs:
            self._keep_run(block, run)
        self._keep_loss(workload)

    def by_layer(self) -> dict[str, int]:
        """The bytes that are kept of a layer's output, and that it keeps of its own, from forward to backward."""
        kept: dict[str, int] = {}
        for array, bytes_ in self.sizes.items():
            if not array.block:
                kept[array.layer] = kept.get(array.layer, 0) + bytes_
        return kept

    def output_bytes(self, name: str) -> int:
        """The bytes of an output, and of its gradient."""
        return self.mixed.item[name] * self.elements[name]

    def _keep_run(self, block: str, run: list[Operation]) -> None:
        """Operations one after the other; those of a block first note what they begin with."""
        own = {op.name for op in run}
        if block:
            self.recomputed[block] = run
            begins = tuple(dict.fromkeys(name for op in run for name in op.inputs if name not in own))
            self._keep(block, Keeps(tuple(range(len(begins)))), begins)
            self._add(block, {Array(run[0].name, "random"): RANDOM_STATE})
        for op in run:
            keeps = self.mixed.lowered(op, RULES[op.kind](op))
            self._keep(op.name, keeps, op.inputs, block, own)
            copied = self.mixed.weight_copy(op)
            self._add(op.name, {Array(op.name, WEIGHT, block): copied} if copied else {})

    def _keep(
        self,
        name: str,
        keeps: Keeps,
        inputs: Sequence[str],
        block: str = "",
        inside: frozenset[str] | set[str] = frozenset(),
    ) -> None:
        outputs = [self.storages[source] for source in [*(inputs[at] for at in keeps.inputs), *[name] * keeps.output]]
        arrays = {
            Array(storage, "output", block if storage in inside else ""): self.output_bytes(storage)
            for storage in outputs
        }
        own = self.mixed.item.get(name, BYTES) * keeps.elements + keeps.bytes
        self._add(name, arrays | ({Array(name, "own", block): own} if own else {}))

    def _add(self, keeper: str, arrays: Mapping[Array, int]) -> None:
        self.sizes |= arrays
        self.keepers.setdefault(keeper, []).extend(arrays)

    def _keep_loss(self, workload: Workload) -> None:
        """Cross-entropy keeps logarithms of shares, labels and their number; a squared error keeps what it compares.

        Both are computed in float32, of a copy if they have to.
        """
        last, loss = workload.operations[-1], workload.loss
        if loss == "reconstruction":
            lowered = self.mixed.item[last.name] < BYTES
            copy = BYTES * size(last.output_shape) if lowered else 0
            self._keep(LOSS, Keeps((1,) if lowered else (0, 1), bytes=copy), (last.name, INPUT))
            return
        positions = last.output_shape[1:-1] if loss.endswith("-token") else ()
        labels, told = LABEL * workload.batch * size(positions), BYTES
        self._keep(LOSS, Keeps(bytes=BYTES * size(last.output_shape) + labels + told), (last.name,))

    def uses(self) -> dict[Array, int]:
        """How many keep each array."""
        left: dict[Array, int] = {}
        for array in itertools.chain.from_iterable(self.keepers.values()):
            left[array] = left.get(array, 0) + 1
        return left

    def freed(self, keeper: str, left: dict[Array, int]) -> int:
        """The bytes that nobody needs once a keeper's backward is done."""
        freed = 0
        for array in self.keepers[keeper]:
            left[array] -= 1
            freed += 0 if left[array] else self.sizes[array]
        return freed

    def held(self, block: str = "", part: str = "") -> int:
        """The bytes that are held from forward to backward, or that a block adds when it has run again; of a part."""
        return sum(b for array, b in self.sizes.items() if array.block == block and part in ("", array.part))


def storages(operations: Sequence[Operation]) -> dict[str, str]:
    """By name: the operation whose array that output is, or is a view of."""
    places = {INPUT: INPUT}
    for op in operations:
        view = op.kind in VIEWS or (op.kind in ("dropout", "drop_path") and not op.options["rate"])
        places[op.name] = places[op.inputs[0]] if view else op.name
    return places
