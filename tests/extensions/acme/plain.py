"""Plain: training and inference of dense networks in NumPy alone."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List

import numpy as np

from steplab_worker import adapter as base
from steplab_worker.graph import Graph, Layer
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.weights import Key

DECLARATION = {
    "title": "Plain NumPy",
    "pins": ["numpy==2.4.6"],
    "module": "numpy",
    "kinds": ["step", "infer"],
    "strategies": ["sync", "accumulate"],
    "layers": ["flatten", "dense", "activation"],
    "factors": {},
    "launcher": "niced",
    "unsupported": [{"when": {"optimizer": ["momentum", "adam"]}, "because": "it knows plain gradient descent only"}],
}
# Each activation, and its slope from its own input and output.
ACTIVATIONS = {
    "relu": (lambda x: np.maximum(x, 0), lambda x, y: (x > 0).astype(np.float32)),
    "tanh": (np.tanh, lambda x, y: 1 - y * y),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y)),
    "silu": (lambda x: x / (1 + np.exp(-x)), lambda x, y: (1 + np.exp(-x) * (1 + x)) / (1 + np.exp(-x)) ** 2),
}


class Session(base.Session):
    """One trial: the layers' inputs are kept by the forward pass, gradients are added up until they are used."""

    def __init__(self, job: TrialJob, graph: Graph, weights: Dict[Key, np.ndarray], ranks: "Ranks"):
        self.job, self.graph, self.ranks = job, graph, ranks
        self.weights = {key: array.copy() for key, array in weights.items()}
        self.sums = {key: np.zeros_like(array) for key, array in weights.items()}
        self.exchanges = 0

    def source(self) -> base.Source:
        return base.FileSource(self.job, self.ranks.group.rank, self.ranks.group.workers)

    def load(self, batch: Any) -> None:
        self.samples, self.labels = batch

    def forward(self) -> None:
        self.infer()
        if self.graph.loss == "reconstruction":
            self.slope = 2 * (self.output - self.samples.reshape(self.output.shape)) / self.output.size
            self.value = float(np.mean((self.output - self.samples.reshape(self.output.shape)) ** 2))
            return
        rows = np.arange(len(self.labels))
        exponents = np.exp(self.output - self.output.max(axis=1, keepdims=True))
        chances = exponents / exponents.sum(axis=1, keepdims=True)
        self.value = float(-np.log(chances[rows, self.labels]).mean())
        chances[rows, self.labels] -= 1
        self.slope = chances / len(rows)

    def infer(self) -> None:
        self.inputs = []  # type: List[np.ndarray]
        self.output = self.samples
        for layer in self.graph.layers:
            self.inputs.append(self.output)
            self.output = self._apply(layer, self.output)

    def _apply(self, layer: Layer, x: np.ndarray) -> np.ndarray:
        if layer.kind == "flatten":
            return x.reshape(len(x), -1)
        if layer.kind == "activation":
            return ACTIVATIONS[layer.options["function"]][0](x)
        return x @ self.weights[layer.name, "weight"].T + self.weights.get((layer.name, "bias"), np.float32(0))

    def backward(self) -> None:
        slope = self.job.share(self.slope)
        outputs = [*self.inputs[1:], self.output]
        for layer, x, y in zip(self.graph.layers[::-1], self.inputs[::-1], outputs[::-1]):
            slope = self._slope(layer, x, y, slope)

    def _slope(self, layer: Layer, x: np.ndarray, y: np.ndarray, slope: np.ndarray) -> np.ndarray:
        if layer.kind == "flatten":
            return slope.reshape(x.shape)
        if layer.kind == "activation":
            return slope * ACTIVATIONS[layer.options["function"]][1](x, y)
        self.sums[layer.name, "weight"] += slope.T @ x
        if (layer.name, "bias") in self.sums:
            self.sums[layer.name, "bias"] += slope.sum(axis=0)
        return slope @ self.weights[layer.name, "weight"]

    def meet(self) -> None:
        self.ranks.gather(np.zeros(0, np.float32))

    def exchange(self) -> None:
        if self.ranks.group.workers == 1:
            return
        every = self.ranks.gather(np.concatenate([array.ravel() for array in self.sums.values()]))
        mean, start = np.mean(every, axis=0), 0
        for array in self.sums.values():
            array[...] = mean[start : start + array.size].reshape(array.shape)
            start += array.size
        self.exchanges += 1

    def update(self) -> None:
        for key, gradient in self.sums.items():
            self.weights[key] -= np.float32(self.job.learning_rate) * gradient
            gradient[...] = 0

    def step(self, batch: Any, last: bool) -> None:
        self.load(batch)
        self.forward()
        self.backward()
        if last:
            self.exchange()
            self.update()

    def gradients(self) -> Dict[Key, np.ndarray]:
        return {key: array.copy() for key, array in self.sums.items()}

    def parameters(self) -> Dict[Key, np.ndarray]:
        return {key: array.copy() for key, array in self.weights.items()}

    def count_exchanges(self) -> Callable[[], int]:
        before = self.exchanges
        return lambda: self.exchanges - before

    def outputs(self) -> np.ndarray:
        return self.output

    def loss(self) -> float:
        return self.value if self.job.kind != "infer" else 0.0


class Ranks:
    """Arrays handed around through files in the folder that all ranks of the group see."""

    def __init__(self, group: GroupJob):
        self.group, self.turn = group, 0

    def gather(self, array: np.ndarray) -> List[np.ndarray]:
        """The arrays of all ranks, when all are here."""
        if self.group.workers == 1:
            return [array]
        self.turn += 1
        with open(self._path(self.group.rank, ".new"), "wb") as file:
            np.save(file, array)
        os.replace(file.name, self._path(self.group.rank))
        found = [self._wait(rank) for rank in range(self.group.workers)]
        self.turn -= 2  # whoever is here has read all of the turn before last
        if os.path.exists(self._path(self.group.rank)):
            os.remove(self._path(self.group.rank))
        self.turn += 2
        return found

    def _path(self, rank: int, suffix: str = "") -> str:
        return os.path.join(self.group.rendezvous, "array-%d-%d%s" % (self.turn, rank, suffix))

    def _wait(self, rank: int) -> np.ndarray:
        while not os.path.exists(self._path(rank)):
            time.sleep(1e-4)
        return np.load(self._path(rank))


class Adapter(base.Adapter):
    """NumPy in one rank."""

    def __init__(self, group: GroupJob):
        super().__init__(group)
        self.ranks = Ranks(group)

    def versions(self) -> Dict[str, str]:
        return dict(super().versions(), plain="1", device="cpu", priority=str(os.nice(0)))

    def session(self, job: TrialJob, graph: Any, weights: Dict[Key, np.ndarray]) -> Session:
        return Session(job, graph, weights, self.ranks)
