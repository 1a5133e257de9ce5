"""The seconds of each layer of a PyTorch network: hooks around its forward, marks in its backward."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Tuple

import torch
from torch import nn

from steplab_worker.adapters.torch.layers import GraphModule


class LayerClock:
    """Times each layer of one forward and backward pass.

    Forward is timed by hooks around the layer. In backward a mark is set when the gradient of a layer's output is
    there; the time until the next mark is what that layer's backward took, so the layers sum to the whole. What runs
    forward a second time does so in backward, and belongs to that.
    """

    def __init__(self, module: nn.Module, synchronize: Any):
        self.module, self.synchronize = module, synchronize
        self.seconds: Dict[str, Dict[str, float]] = {}
        self.handles: List[Any] = []
        self.marks: List[Tuple[str, float]] = []
        self.began = 0.0
        self.again: List[Tuple[str, float, float]] = []  # layers that ran forward once more, from when to when

    def __enter__(self) -> "LayerClock":
        for name, layer in _leaves(self.module):
            self.seconds[name] = {"t_f": 0.0, "t_b": 0.0}
            self.handles += [
                layer.register_forward_pre_hook(lambda *_, key=name: self._before(key)),
                layer.register_forward_hook(lambda _, __, output, key=name: self._after(key, output)),
            ]
        return self

    def _now(self) -> float:
        self.synchronize()
        return time.perf_counter()

    def _before(self, layer: str) -> None:
        self.began = self._now()

    def _after(self, layer: str, output: Any) -> None:
        if self.marks:  # backward has begun
            self.again.append((layer, self.began, self._now()))
            return
        if isinstance(output, torch.Tensor) and output.requires_grad:
            output.register_hook(lambda _, key=layer: self.marks.append((key, self._now())))
        self.seconds[layer]["t_f"] += self._now() - self.began

    def __exit__(self, *_: Any) -> None:
        end = self._now()
        for (layer, start), (_, after) in zip(self.marks, [*self.marks[1:], ("", end)]):
            others = sum(until - since for _, since, until in self.again if start <= since < after)
            self.seconds[layer]["t_b"] += after - start - others
        for layer, since, until in self.again:
            self.seconds[layer]["t_b"] += until - since
        for handle in self.handles:
            handle.remove()


def _leaves(module: nn.Module) -> List[Tuple[str, nn.Module]]:
    """The layers to time: the graph's own, or in a user's network those that hold no further ones."""
    if isinstance(module, GraphModule):
        return list(module.layers().items())
    return [(name, part) for name, part in module.named_modules() if name and not any(True for _ in part.children())]
