"""What a training step holds in memory: parameters, gradients, optimiser state, activations kept for backward.

Activations are counted as PyTorch's eager mode keeps them, array by array: an operation keeps those inputs and outputs
that its gradient is computed from, several operations may keep one array, and views are no arrays of their own. The
peak follows the backward pass, in which kept arrays go and gradients come. What a framework itself takes (code, thread
pools, scratch space of its kernels) is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from steplab.core.errors import InputError
from steplab.costs.network import BYTES, OPTIMIZERS, cost
from steplab.costs.operation import Operation, Workload
from steplab_worker.graph import INPUT, size

LOSS = "loss"
MAX_BATCH = 1 << 24
LABEL = 8  # bytes of a label, and of the place of a maximum


@dataclass(frozen=True)
class Keeps:
    """What an operation keeps for its gradient: some of its inputs, its output, and bytes of its own."""

    inputs: tuple[int, ...] = ()
    output: bool = False
    own: int = 0


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
    return Keeps(own=BYTES * size((batch, channels, *padded)))


def _batch_norm(op: Operation) -> Keeps:
    return Keeps((0,), own=2 * BYTES * op.output_shape[1])


def _layer_norm(op: Operation) -> Keeps:
    return Keeps((0,), own=2 * BYTES * size(op.output_shape[:-1]))


def _activation(op: Operation) -> Keeps:
    """Some gradients follow from the output, the others from the input."""
    return Keeps(output=True) if op.options["function"] in ("relu", "tanh", "sigmoid") else Keeps((0,))


def _max_pool(op: Operation) -> Keeps:
    return Keeps((0,), own=LABEL * size(op.output_shape))


def _dropout(op: Operation) -> Keeps:
    """The factors of the elements; of whole samples, and the input that they multiply."""
    return Keeps(own=BYTES * size(op.output_shape)) if op.options["rate"] else Keeps()


def _drop_path(op: Operation) -> Keeps:
    return Keeps(own=BYTES * op.output_shape[0]) if op.options["rate"] else Keeps()


def _self_attention(op: Operation) -> Keeps:
    """The fused kernel keeps a number for each query instead of its scores."""
    batch, positions, _ = op.output_shape
    return Keeps((0,), output=True, own=BYTES * batch * op.options["heads"] * positions)


def _attention(op: Operation) -> Keeps:
    """Queries, keys and values are copied head by head, and so is what they find."""
    batch, positions = op.output_shape[0], size(op.output_shape[2:])
    own = sum(map(size, op.input_shapes)) + size(op.output_shape) + batch * op.options["heads"] * positions
    return Keeps(own=BYTES * own)


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


def memory(workload: Workload, optimizer: str = "sgd") -> Memory:
    """What a step of training holds.

    >>> from steplab.costs.builtin import builtin
    >>> memory(builtin("lenet5", batch=64), "adam").state_bytes == 2 * 4 * 61706
    True
    """
    counted = cost(workload)
    parameters = BYTES * counted.parameters
    state = OPTIMIZERS[optimizer].state * parameters
    arrays = _Arrays(workload)
    own = {layer.name: BYTES * layer.parameters for layer in counted.layers}
    kinds = {INPUT: INPUT} | {op.name: op.kind for op in workload.operations} | {LOSS: workload.loss}
    layers = tuple(LayerMemory(name, kind, own.get(name, 0), arrays.kept_of(name)) for name, kind in kinds.items())
    return Memory(
        network=workload.name,
        batch=workload.batch,
        optimizer=optimizer,
        parameter_bytes=parameters,
        gradient_bytes=parameters,
        state_bytes=state,
        activation_bytes=sum(layer.activation_bytes for layer in layers),
        peak_bytes=parameters + state + arrays.peak(own),
        layers=layers,
    )


def largest_batch(at: Callable[[int], Workload], optimizer: str, within: int) -> int:
    """The largest batch with which a network, as a workload at a batch size, peaks within so many bytes; 0 if none."""

    def fits(batch: int) -> bool:
        return memory(at(batch), optimizer).peak_bytes <= within

    low, high = 0, 1
    while high <= MAX_BATCH and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


Array = tuple[str, str]  # the layer that it is kept of, and what it is: its output, or what is its own


class _Arrays:
    """The arrays that a forward pass keeps: how large each is, and which operations keep it."""

    def __init__(self, workload: Workload) -> None:
        unknown = sorted({op.kind for op in workload.operations} - set(RULES))
        if unknown:
            hint = "it is known of the built-in networks' layers"
            raise InputError(
                f"what {', '.join(unknown)} keeps for backward is not known", where=workload.name, hint=hint
            )
        self.operations = workload.operations
        self.elements = {INPUT: workload.batch * size(workload.input_shape)}
        self.storages = {INPUT: INPUT}
        self.sizes: dict[Array, int] = {}
        self.keepers: dict[str, list[Array]] = {}
        for op in workload.operations:
            view = op.kind in VIEWS or (op.kind in ("dropout", "drop_path") and not op.options["rate"])
            self.storages[op.name] = self.storages[op.inputs[0]] if view else op.name
            self.elements[op.name] = size(op.output_shape)
            self._keep(op.name, RULES[op.kind](op), op.inputs)
        self._keep_loss(workload)

    def kept_of(self, name: str) -> int:
        """The bytes that are kept of a layer's output, and that it keeps of its own."""
        return sum(self.sizes.get((name, part), 0) for part in ("output", "own"))

    def _keep(self, name: str, keeps: Keeps, inputs: tuple[str, ...]) -> None:
        outputs = [inputs[at] for at in keeps.inputs] + [name] * keeps.output
        arrays = {
            (storage, "output"): BYTES * self.elements[storage] for storage in map(self.storages.__getitem__, outputs)
        }
        if keeps.own:
            arrays[name, "own"] = keeps.own
        self.sizes |= arrays
        self.keepers[name] = list(arrays)

    def _keep_loss(self, workload: Workload) -> None:
        """Cross-entropy keeps logarithms of shares, labels and their number; a squared error keeps what it compares."""
        last, loss = workload.operations[-1], workload.loss
        if loss == "reconstruction":
            self._keep(LOSS, Keeps((0, 1)), (last.name, INPUT))
            return
        positions = last.output_shape[1:-1] if loss.endswith("-token") else ()
        labels, told = LABEL * workload.batch * size(positions), BYTES
        self._keep(LOSS, Keeps(own=BYTES * size(last.output_shape) + labels + told), (last.name,))

    def peak(self, parameters: dict[str, int]) -> int:
        """The most bytes of kept arrays, gradients and what is computed at one moment of the backward pass."""
        held, gradients = sum(self.sizes.values()), 0
        logits = BYTES * self.elements[self.operations[-1].name]
        highest = held + 2 * logits  # the loss gives the gradients of the shares, then of the outputs
        left = self._uses()
        held -= self._freed(LOSS, left)
        for op in reversed(self.operations):
            moving = BYTES * (self.elements[op.name] + sum(self.elements[name] for name in op.inputs if name != INPUT))
            gradients += parameters[op.name]
            highest = max(highest, held + gradients + moving)
            held -= self._freed(op.name, left)
        return highest

    def _uses(self) -> dict[Array, int]:
        every: Iterable[Array] = (array for arrays in self.keepers.values() for array in arrays)
        left: dict[Array, int] = {}
        for array in every:
            left[array] = left.get(array, 0) + 1
        return left

    def _freed(self, name: str, left: dict[Array, int]) -> int:
        """The bytes that nobody needs once an operation's backward is done."""
        freed = 0
        for array in self.keepers[name]:
            left[array] -= 1
            freed += 0 if left[array] else self.sizes[array]
        return freed
