"""What a network costs, per layer and in total. 1 multiply-add = 2 FLOPs; numbers are float32."""

from __future__ import annotations

from dataclasses import dataclass, replace

from steplab.core.errors import InputError
from steplab.costs.counting import COUNTING, Counts
from steplab.costs.operation import Operation, Workload, learning, uses
from steplab_worker.graph import Shape, size

BYTES = 4  # of a float32
CONVENTION = "1 multiply-add = 2 FLOPs"


@dataclass(frozen=True)
class Optimizer:
    """What an optimiser does to each parameter in one update."""

    flops: int
    arrays_read: int
    arrays_written: int
    state: int


# sgd: w −= η·g. momentum: v = μ·v + g; w −= η·v. adam (Kingma, Ba, ICLR 2015): m = β1·m + (1−β1)·g [3],
# v = β2·v + (1−β2)·g² [4], both divided by their bias correction [2], w −= η·m/(sqrt(v) + ε) [5].
OPTIMIZERS = {
    "sgd": Optimizer(flops=2, arrays_read=2, arrays_written=1, state=0),
    "momentum": Optimizer(flops=4, arrays_read=3, arrays_written=2, state=1),
    "adam": Optimizer(flops=14, arrays_read=4, arrays_written=3, state=2),
}


@dataclass(frozen=True)
class Update:
    """The cost of one optimiser step."""

    flops: int
    bytes_read: int
    bytes_written: int
    state_bytes: int


@dataclass(frozen=True)
class Totals:
    """FLOPs and bytes of a layer or of a network."""

    forward_flops: int
    forward_matmul_flops: int
    backward_flops: int
    backward_matmul_flops: int
    forward_bytes_read: int
    forward_bytes_written: int
    backward_bytes_read: int
    backward_bytes_written: int
    activation_bytes: int

    @property
    def forward_bytes(self) -> int:
        """Bytes read and written in the forward pass."""
        return self.forward_bytes_read + self.forward_bytes_written

    @property
    def backward_bytes(self) -> int:
        """Bytes read and written in the backward pass."""
        return self.backward_bytes_read + self.backward_bytes_written

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity of the forward pass, FLOPs per byte; none where no bytes move."""
        return self.forward_flops / self.forward_bytes if self.forward_bytes else None


@dataclass(frozen=True)
class LayerCost:
    """One layer; `totals` is none where its kind is not known, which is not the same as nothing."""

    name: str
    kind: str
    output_shape: Shape
    parameters: int
    totals: Totals | None

    @property
    def gradient_bytes(self) -> int:
        """What workers exchange for this layer in each step."""
        return BYTES * self.parameters


@dataclass(frozen=True)
class NetworkCost:
    """A network at one batch size."""

    name: str
    batch: int
    input_shape: Shape
    parameters: int
    layers: tuple[LayerCost, ...]

    @property
    def totals(self) -> Totals:
        """The sum over the layers whose kind is known."""
        known = [layer.totals for layer in self.layers if layer.totals]
        return Totals(**{name: sum(getattr(layer, name) for layer in known) for name in Totals.__dataclass_fields__})

    @property
    def unknown(self) -> tuple[LayerCost, ...]:
        """The layers that could not be counted: the totals are at least what they say."""
        return tuple(layer for layer in self.layers if layer.totals is None)

    @property
    def gradient_bytes(self) -> int:
        """What workers exchange in each step."""
        return BYTES * self.parameters


def update(parameters: int, optimizer: str) -> Update:
    """One optimiser step over so many parameters.

    >>> update(61706, "adam").state_bytes
    493648
    """
    rule, arrays = OPTIMIZERS[optimizer], BYTES * parameters
    return Update(rule.flops * parameters, rule.arrays_read * arrays, rule.arrays_written * arrays, rule.state * arrays)


def cost(workload: Workload) -> NetworkCost:
    """Count every layer of a workload.

    >>> from steplab_worker import networks
    >>> from steplab.costs.operation import from_graph
    >>> cost(from_graph(networks.build("lenet5"), batch=1)).totals.forward_matmul_flops
    833040
    """
    needed, used = learning(workload.operations), uses(workload.operations)
    operations, known = workload.operations, dict[str, int]()
    layers = []
    for operation in operations:
        new = {weight.name: size(weight.shape) for weight in operation.weights if weight.name not in known}
        layers.append(_layer(operation, workload.batch, needed, used.get(operation.name, 0), sum(new.values())))
        known |= new
    distinct = {weight.name: size(weight.shape) for weight in workload.declared} | known
    return NetworkCost(workload.name, workload.batch, workload.input_shape, sum(distinct.values()), tuple(layers))


def _layer(op: Operation, batch: int, needed: dict[str, bool], used: int, parameters: int) -> LayerCost:
    """One layer; its parameters are those that no layer before it has."""
    counts = _counts(op, tuple(needed.get(name, False) for name in op.inputs))
    shape = op.output_shape[1:] if op.output_shape[:1] == (batch,) else op.output_shape
    if counts and not needed[op.name]:
        counts = Counts(counts.matmul, counts.other, read=counts.read, written=counts.written, kept=counts.kept)
    elif counts and used > 1:
        counts = _gathered(counts, size(op.output_shape), used - 1)
    return LayerCost(op.name, op.kind, shape, parameters, _totals(counts) if counts else None)


def _counts(op: Operation, needs: tuple[bool, ...]) -> Counts | None:
    counting = COUNTING.get(op.kind)
    try:
        return counting(op, needs) if counting else None
    except (IndexError, KeyError, ValueError, TypeError) as error:
        shapes = " and ".join(map(str, op.input_shapes)) or "nothing"
        raise InputError(f"layer {op.name}: a {op.kind} cannot be computed from {shapes}") from error


def _gathered(counts: Counts, elements: int, sums: int) -> Counts:
    """An output that several layers take gets several gradients, which are added up."""
    return replace(
        counts,
        other_backward=counts.other_backward + sums * elements,
        read_backward=counts.read_backward + 2 * sums * elements,
        written_backward=counts.written_backward + sums * elements,
    )


def _totals(counts: Counts) -> Totals:
    return Totals(
        forward_flops=counts.matmul + counts.other,
        forward_matmul_flops=counts.matmul,
        backward_flops=counts.matmul_backward + counts.other_backward,
        backward_matmul_flops=counts.matmul_backward,
        forward_bytes_read=BYTES * counts.read,
        forward_bytes_written=BYTES * counts.written,
        backward_bytes_read=BYTES * counts.read_backward,
        backward_bytes_written=BYTES * counts.written_backward,
        activation_bytes=BYTES * counts.kept,
    )
