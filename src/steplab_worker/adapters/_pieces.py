"""Layers timed one by one in frameworks that compile: each layer's forward and backward is a program of its own.

The pieces run in the graph's order on the activations of a real batch, then backwards on real gradients; each is timed
until its results are there. From each time the cost of calling an empty piece is taken off, for the network as a whole
is called once only; what compiling the layers together saves in arithmetic and memory traffic is not made up for.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Set, Tuple

from steplab_worker.graph import INPUT, Graph, Layer

BUDGET_S = 120.0  # for compiling all pieces
EMPTY_CALLS = 10
NOTHING = Layer("nothing", "nothing", (INPUT,), (1,))  # a layer that only doubles `Pieces.small`
Seconds = Dict[str, Dict[str, float]]


class TooLong(Exception):
    """Compiling the pieces takes longer than a measurement should; the message says how far it came."""


class Pieces:
    """A framework's way to run one layer (and NOTHING); every method returns when its work is done."""

    small: Any = None  # an array of one number

    def forward(self, layer: Layer, inputs: List[Any], wanted: List[bool]) -> Tuple[Any, Any]:
        """The layer's output, and what `backward` needs to give gradients of the weights and the wanted inputs."""
        raise NotImplementedError

    def backward(self, layer: Layer, kept: Any, gradient: Any) -> List[Any]:
        """From the gradient of the output to those of the wanted inputs (and of the weights)."""
        raise NotImplementedError

    def loss_gradient(self, output: Any) -> Any:
        """The gradient of the loss by the network's output."""
        raise NotImplementedError

    def add(self, gradient: Any, other: Any) -> Any:
        """The sum of two gradients of the same output."""
        raise NotImplementedError


class LayerWalk:
    """Runs a network in pieces, again and again."""

    def __init__(self, graph: Graph, pieces: Pieces):
        self.graph, self.pieces = graph, pieces
        self.differentiated = differentiated(graph)
        self.compiled = False
        self.least = [float("inf"), float("inf")]  # seconds of the quickest empty call so far, forward and backward

    def times(self, samples: Any) -> Seconds:
        """Seconds of each layer, forward and backward; the first call compiles, within the budget."""
        if not self.compiled:
            self._run(samples, time.perf_counter() + BUDGET_S)
            self._calls()
            self.compiled = True
        seconds, calls = self._run(samples, float("inf")), self._calls()
        return {
            name: {phase: max(0.0, seconds - calls[phase]) for phase, seconds in times.items()}
            for name, times in seconds.items()
        }

    def _calls(self) -> Dict[str, float]:
        """What it costs at least to call an empty piece, forward and backward; more must not be taken off."""
        rows = []
        for _ in range(EMPTY_CALLS):
            start = time.perf_counter()
            _, kept = self.pieces.forward(NOTHING, [self.pieces.small], [True])
            middle = time.perf_counter()
            self.pieces.backward(NOTHING, kept, self.pieces.small)
            rows.append((middle - start, time.perf_counter() - middle))
        self.least = [min(least, *column) for least, column in zip(self.least, zip(*rows))]
        return dict(zip(("t_f", "t_b"), self.least))

    def _run(self, samples: Any, deadline: float) -> Seconds:
        seconds = {layer.name: {"t_f": 0.0, "t_b": 0.0} for layer in self.graph.layers}
        values: Dict[str, Any] = {INPUT: samples}
        kept: Dict[str, Any] = {}
        for layer in self.graph.layers:
            inputs = [values[name] for name in layer.inputs]
            wanted = [name in self.differentiated for name in layer.inputs]
            start = time.perf_counter()
            values[layer.name], kept[layer.name] = self.pieces.forward(layer, inputs, wanted)
            seconds[layer.name]["t_f"] = self._since(start, deadline, layer)
        self._back(values, kept, seconds, deadline)
        return seconds

    def _back(self, values: Dict[str, Any], kept: Dict[str, Any], seconds: Seconds, deadline: float) -> None:
        last = self.graph.layers[-1].name
        gradients = {last: self.pieces.loss_gradient(values[last])}
        for layer in reversed(self.graph.layers):
            if layer.name not in gradients or layer.name not in self.differentiated:
                continue
            start = time.perf_counter()
            pulled = self.pieces.backward(layer, kept.pop(layer.name), gradients.pop(layer.name))
            wanted = [name for name in layer.inputs if name in self.differentiated]
            for name, gradient in zip(wanted, pulled):
                gradients[name] = self.pieces.add(gradients[name], gradient) if name in gradients else gradient
            seconds[layer.name]["t_b"] = self._since(start, deadline, layer)

    def _since(self, start: float, deadline: float, layer: Layer) -> float:
        now = time.perf_counter()
        if now > deadline:
            number = len(self.graph.layers)
            raise TooLong("compiling %d layers one by one took over %.0f s, at %s" % (number, BUDGET_S, layer.name))
        return now - start


def differentiated(graph: Graph) -> Set[str]:
    """The layers by whose output the loss is differentiated: those with weights, and all that follow them."""
    names: Set[str] = set()
    for layer in graph.layers:
        if layer.weights or any(name in names for name in layer.inputs):
            names.add(layer.name)
    return names


def alike(layer: Layer, inputs: Any, wanted: List[bool]) -> Tuple[Any, ...]:
    """What two layers must have in common to share a program."""
    options = tuple(sorted((name, repr(value)) for name, value in layer.options.items()))
    weights = tuple(sorted(layer.weights.items()))
    return layer.kind, options, weights, tuple(tuple(array.shape) for array in inputs), tuple(wanted)
