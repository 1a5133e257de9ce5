"""Plain: training and inference of dense networks in NumPy alone."""

from __future__ import annotations

import os
import socket
from multiprocessing.connection import Connection
from typing import Any, Callable, Dict, List

import numpy as np

from steplab_worker import adapter as base
from steplab_worker.graph import Graph, Layer
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.rendezvous import Rendezvous
from steplab_worker.transport import host_and_port
from steplab_worker.weights import Key

DECLARATION = {
    "title": "Plain NumPy",
    "pins": ["numpy==2.4.6"],
    "module": "numpy",
    "doors": "rank 0 on 127.0.0.1",
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
        return base.FileSource(self.job, self.ranks.rank, self.ranks.workers)

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
        if self.ranks.workers == 1:
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
    """Arrays handed around through rank 0, where the others have found it at the rendezvous."""

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        self.rank, self.workers = group.rank, group.workers
        self.lines = [] if group.workers == 1 else self._joined(rendezvous)

    def _joined(self, rendezvous: Rendezvous) -> List[Connection]:
        if self.rank > 0:
            return [Connection(socket.create_connection(host_and_port(rendezvous.meet()[0])).detach())]
        self.listener = rendezvous.listener()
        rendezvous.meet(self.listener.getsockname()[1])
        return [Connection(self.listener.accept()[0].detach()) for _ in range(1, self.workers)]

    def gather(self, array: np.ndarray) -> List[np.ndarray]:
        """The arrays of all ranks, when all are here."""
        if self.rank > 0:
            self.lines[0].send((self.rank, array))
            return self.lines[0].recv()
        by_rank = dict([(0, array), *(line.recv() for line in self.lines)])
        arrays = [by_rank[rank] for rank in range(self.workers)]
        for line in self.lines:
            line.send(arrays)
        return arrays


class Adapter(base.Adapter):
    """NumPy in one rank."""

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        super().__init__(group, rendezvous)
        self.ranks = Ranks(group, rendezvous)

    def versions(self) -> Dict[str, str]:
        return dict(super().versions(), plain="1", device="cpu", priority=str(os.nice(0)))

    def session(self, job: TrialJob, graph: Any, weights: Dict[Key, np.ndarray]) -> Session:
        return Session(job, graph, weights, self.ranks)
