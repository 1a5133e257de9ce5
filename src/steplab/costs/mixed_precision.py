"""Which arrays are float32 and which bfloat16 in mixed precision, as PyTorch's autocast on a CPU has it.

Parameters, their gradients and the optimiser's state stay float32. Convolutions, products and attention cast what they
take to bfloat16 and give it (PyTorch's documentation, "Automatic Mixed Precision", ops that autocast to lower
precision); the cast copies of inputs and of weights are what they keep. Other operations compute in the widest type
that they are given, and a parameter is float32. Losses are float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from steplab.core.trial import PRECISIONS
from steplab.costs.network import BYTES
from steplab.costs.operation import Operation, learning
from steplab_worker.graph import INPUT, size

if TYPE_CHECKING:
    from steplab.costs.kept_arrays import Keeps

FLOAT32, *_ = COUNTED = PRECISIONS[:2]  # of float16, which needs a GPU, no byte could be checked
HALF = 2  # bytes of a bfloat16 or a float16
LOWERED = ("conv", "dense", "tied_dense", "attention", "self_attention")
WIDE = ("embedding", "position_embedding", "class_token", "scale")  # that give what their parameter is


class Mixed:
    """By the name of an output: the bytes of an element."""

    def __init__(self, operations: Sequence[Operation], precision: str) -> None:
        self.lowers = precision != FLOAT32
        self.learns = learning(tuple(operations))
        self.item = {INPUT: BYTES}
        for op in operations:
            self.item[op.name] = self._item(op)

    def _item(self, op: Operation) -> int:
        if self.lowers and op.kind in LOWERED:
            return HALF
        return BYTES if op.kind in WIDE else max(self.item[name] for name in op.inputs)

    def lowered(self, op: Operation, keeps: Keeps) -> Keeps:
        """What it keeps, with a copy in place of each input that it has to cast."""
        if not self.lowers or op.kind not in LOWERED:
            return keeps
        cast = [at for at in keeps.inputs if self.item[op.inputs[at]] > HALF]
        inputs = tuple(at for at in keeps.inputs if at not in cast)
        return replace(keeps, inputs=inputs, elements=keeps.elements + sum(size(op.input_shapes[at]) for at in cast))

    def weight_copy(self, op: Operation) -> int:
        """The bytes of the cast copy of its weight, if backward needs it for the gradient of the input."""
        if not self.lowers or op.kind not in LOWERED:
            return 0
        needed = op.kind == "conv" or self.learns[op.inputs[0]]
        return HALF * sum(size(weight.shape) for weight in op.weights if weight.role == "weight" and needed)
