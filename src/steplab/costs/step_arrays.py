"""The arrays of a training step in the order in which PyTorch's eager mode allocates and frees them.

Forward gives every operation's output and what it keeps of its own; an output goes when no later operation takes it and
none keeps it. Backward gives gradients of inputs and of parameters, and frees what was kept. An update with state takes
an array of each parameter's size meanwhile; the gradients go before the next step. Workers that divide the parameters
keep their parts of them, and of a block's gradients once the block is done.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from steplab.costs.allocator import BETWEEN, Heap
from steplab.costs.kept_arrays import LOSS, VIEWS, Array, KeptArrays
from steplab.costs.kernel_arrays import Moment, beside_input_gradient, beside_output, beside_weight_gradient
from steplab.costs.network import BYTES, OPTIMIZERS
from steplab.costs.operation import Operation, Workload, learning
from steplab_worker.graph import INPUT, size

STEPS = 3  # the heap is then as it stays
# What processes kept, as a multiple of what the simulated heap keeps: the median of 15 cells of gpt2 and lenet5
# (benchmarks/memory.py). Fewer small objects outlive their arrays than all.
MIDDLE = 0.75
# The ends hold these cells and 12 of resnet50; where little is simulated, a tenth of the peak was kept all the same.
LOW, HIGH, HIGH_OF_PEAK = 0.3, 1.2, 0.1


@dataclass(frozen=True)
class Beside:
    """What a process on a CPU takes beside a step's own arrays, in bytes."""

    kernel_bytes: int  # the most that kernels and the update add to the arrays for a moment
    allocator_bytes: int  # what the C library's allocator keeps of freed arrays, and the ends of its interval
    allocator_low: int
    allocator_high: int

    @property
    def bytes(self) -> int:
        """Both."""
        return self.kernel_bytes + self.allocator_bytes

    @property
    def ends(self) -> tuple[int, int]:
        """The ends of the interval of both."""
        return self.kernel_bytes + self.allocator_low, self.kernel_bytes + self.allocator_high


def beside(workload: Workload, arrays: KeptArrays, optimizer: str, peak: int, shards: int = 1) -> Beside:
    """What a process has of the system beside a peak of so many bytes, which is what a step's arrays hold."""
    steps = _Steps(workload, arrays, optimizer, shards)
    for _ in range(STEPS):
        steps.run()
    most, kept = steps.heap.most, steps.heap.peak - steps.heap.most
    high = HIGH * kept + HIGH_OF_PEAK * most
    return Beside(max(0, most - peak), round(MIDDLE * kept), round(LOW * kept), round(high))


class _Steps:
    """One step after the other in one heap."""

    def __init__(self, workload: Workload, arrays: KeptArrays, optimizer: str, shards: int) -> None:
        self.arrays, self.shards, self.heap = arrays, shards, Heap()
        self.state = OPTIMIZERS[optimizer].state
        self.learns = learning(workload.operations)
        self.runs = arrays.runs
        self.taken = _taken(arrays.operations, arrays.storages)
        self.users: dict[Hashable, int] = {}  # who needs each array
        self.gradients: dict[str, Hashable] = {}  # of outputs, by the array that they are of
        self.number = 0
        self.block = ""  # of which the backward runs
        self.whole: list[str] = []  # its weights whose gradients are there
        self.weights = {weight.name: BYTES * size(weight.shape) for op in arrays.operations for weight in op.weights}
        for name, bytes_ in self.weights.items():
            self._give(("parameter", name), bytes_ // shards)
        self._give(Array(INPUT, "output"), arrays.output_bytes(INPUT))

    def run(self) -> None:
        """Forward, backward, update; the gradients go before the next step."""
        self.heap.forget_peaks()
        for block, run in self.runs:
            self._begin_block(block)
            self._forward(block, run, again=False)
        self._loss()
        for block, run in reversed(self.runs):
            before = len(self.heap.left)
            if block:
                self._forward(block, run, again=True)
            self._backward(run)
            for array in self.arrays.keepers.get(block, ()):
                self._leave(array)
            if block:  # with the graph of a block that ran again goes what lay between its arrays
                self.heap.free_small(since=before)
        self._update()
        self.heap.free_small()

    def _give(self, array: Hashable, bytes_: int, users: int = 1, between: int = BETWEEN) -> None:
        self.heap.allocate(array, bytes_, between)
        self.users[array] = users

    def _leave(self, array: Hashable) -> None:
        """One less needs it; the last one frees it."""
        self.users[array] -= 1
        if self.users[array] <= 0:
            self.heap.free(array)
            del self.users[array]

    def _pass(self, bytes_: int) -> None:
        """An array that is there for a moment."""
        self._give("moment", bytes_, between=0)
        self._leave("moment")

    def _begin_block(self, block: str) -> None:
        for array in self.arrays.keepers.get(block, ()):
            if array in self.users:
                self.users[array] += 1
            else:
                self._give(array, self.arrays.sizes[array])

    def _forward(self, block: str, run: Sequence[Operation], again: bool) -> None:
        """A run of operations; a block that is recomputed keeps nothing the first time."""
        mark, keeping = (block if again else ""), again or not block
        inside = {op.name for op in run}
        taken = _taken(run, self.arrays.storages) if again else self.taken
        last = self.arrays.storages[self.arrays.operations[-1].name]
        for op in run:
            if op.kind in VIEWS or self.arrays.storages[op.name] != op.name:
                continue
            output = Array(op.name, "output", mark)
            # The loss takes the last one; the operation itself has it until it is done.
            with self._beside(beside_output(op, self.arrays.mixed.item[op.name])):
                self._give(output, self.arrays.output_bytes(op.name), taken.get(op.name, 0) + (op.name == last) + 1)
            for array in self.arrays.keepers[op.name]:
                self._keep(array, keeping)
            for name in op.inputs:
                storage = self.arrays.storages[name]
                if storage != INPUT and (storage in inside or not again):
                    self._leave(Array(storage, "output", mark if storage in inside else ""))
            self._leave(output)

    @contextmanager
    def _beside(self, moment: Moment) -> Iterator[None]:
        """With what a kernel has beside its result."""
        before, after = ([(which, at) for at in range(len(arrays))] for which, arrays in asdict(moment).items())
        for array, bytes_ in zip([*before, *after], [*moment.before, *moment.after], strict=True):
            self._give(array, bytes_, between=0)
        for array in before:
            self._leave(array)
        yield
        for array in after:
            self._leave(array)

    def _keep(self, array: Array, keeping: bool) -> None:
        if array.part != "output":
            if keeping:
                self._give(array, self.arrays.sizes[array])
            else:
                self._pass(self.arrays.sizes[array])
        elif keeping:
            self.users[array] += 1

    def _loss(self) -> None:
        """Its gradient of the shares, then that of the outputs."""
        last = self.arrays.operations[-1].name
        storage = self.arrays.storages[last]
        for array in self.arrays.keepers[LOSS]:
            self._keep(array, keeping=True)
        self._leave(Array(storage, "output"))
        shares, outputs = self._gradient(storage), self._gradient(storage)
        for array in self.arrays.keepers[LOSS]:
            self._leave(array)
        self._leave(shares)
        self.gradients[storage] = outputs

    def _gradient(self, storage: str) -> Hashable:
        self.number += 1
        array = ("gradient", storage, self.number)
        self._give(array, self.arrays.output_bytes(storage))
        return array

    def _backward(self, run: Sequence[Operation]) -> None:
        for op in reversed(run):
            self._enter(op.block)
            if self.arrays.storages[op.name] != op.name:
                continue
            gradient = self.gradients.pop(op.name, None)
            for name in dict.fromkeys(op.inputs):
                storage = self.arrays.storages[name]
                if storage != INPUT and self.learns[storage]:
                    self._add_gradient(op, storage, gradient)
            with self._beside(beside_weight_gradient(op, self.arrays.mixed.item[op.name])):
                for weight in op.weights:
                    self._weight_gradient(weight.name)
            for array in self.arrays.keepers[op.name]:
                self._leave(array)
            if gradient is not None:
                self._leave(gradient)

    def _add_gradient(self, op: Operation, storage: str, gradient: Hashable) -> None:
        """A sum's gradient is that of each term; others are arrays of their own. Two of one array are added."""
        if op.kind == "add" and gradient is not None:
            self.users[gradient] += 1
        else:
            with self._beside(beside_input_gradient(op, self.arrays.mixed.item[op.name])):
                gradient = self._gradient(storage)
        before = self.gradients.get(storage)
        if before is None:
            self.gradients[storage] = gradient
            return
        if self.users[before] == 1:  # nobody else has it: the other is added to it in its place
            self._leave(gradient)
            return
        self.gradients[storage] = self._gradient(storage)
        self._leave(before)
        self._leave(gradient)

    def _weight_gradient(self, name: str) -> None:
        array = ("weight gradient", name)
        if array in self.users:
            self._pass(self.weights[name])
        else:
            self._give(array, self.weights[name])
            self.whole += [name] if self.block else []

    def _enter(self, block: str) -> None:
        """Of the gradients of a block that is done each worker keeps its part; others are whole until the update."""
        if block != self.block:
            self._scatter(self.whole)
            self.block, self.whole = block, []

    def _scatter(self, names: Sequence[str]) -> None:
        if self.shards > 1:
            for name in names:
                self._give(("part", name), self.weights[name] // self.shards)
                self._leave(("weight gradient", name))

    def _update(self) -> None:
        self._enter("")
        self._scatter([name for name in self.weights if ("weight gradient", name) in self.users])
        for name, bytes_ in self.weights.items():
            for number in range(self.state):
                if ("state", name, number) not in self.users:
                    self._give(("state", name, number), bytes_ // self.shards)
            if self.state > 1:
                self._pass(bytes_ // self.shards)
        for name in self.weights:
            self._leave(("part" if self.shards > 1 else "weight gradient", name))


def _taken(run: Sequence[Operation], storages: dict[str, str]) -> dict[str, int]:
    """By the array: how many operations of a run take it in forward."""
    taken: dict[str, int] = {}
    for op in run:
        if storages[op.name] == op.name:
            for name in op.inputs:
                taken[storages[name]] = taken.get(storages[name], 0) + 1
    return taken
