"""MXNet: Gluon blocks, hybridised; several ranks meet at a key-value store of a scheduler and servers.

MXNet's engine is asynchronous: a native step only queues its work, each gradient is pushed to the server as soon as
backward has made it, and the loop waits for all of it at the end of the iteration. `sync` (store `dist_sync`) lets the
server add up the gradients and every rank update its own weights; `ps-async` (`dist_async`) lets the server keep the
weights and apply each rank's gradient as it comes, so a rank never waits for the others.
"""

from __future__ import annotations

import gc
from typing import Any, Callable, Dict, List, Optional, Tuple

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.gluon import HybridBlock
from mxnet.gluon.loss import L2Loss, SoftmaxCrossEntropyLoss

from steplab_worker import adapter as base
from steplab_worker.adapters.mxnet.layers import LayerClock, build_block
from steplab_worker.adapters.mxnet.store import Store, memory, optimizer, serve, set_updates
from steplab_worker.graph import Graph, size
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.rendezvous import Rendezvous
from steplab_worker.weights import Key

__all__ = ["DECLARATION", "Adapter", "Session", "serve"]

DECLARATION = {
    "title": "MXNet",
    "pins": ["mxnet==1.9.1", "numpy==1.23.5", "pillow>=11,<14", "nibabel>=5.3,<5.4"],
    "module": "mxnet",
    "doors": "scheduler, servers and ranks on 127.0.0.1; a server runs what it is sent as an optimiser",
    "kinds": ["step", "train", "infer"],
    "strategies": ["sync", "ps-async", "accumulate"],
    "layers": "all",
    # Each array is pushed and pulled as soon as its gradient is there.
    "exchange": {"by": "parameter server", "grouping": "arrays", "overlaps": True, "in_flight": 64},
    "factors": {
        "servers": {"default": 0, "help": "servers of the store; 0 is one for each worker", "low": 0, "high": 64},
    },
    "roles": {"scheduler": 1, "server": "servers"},
    "strategies_apart": True,
    "unsupported": [
        {
            "when": {"kind": "train", "strategy": "ps-async"},
            "because": "with ps-async the optimiser's memory is in the servers, so a training could not be continued",
        },
        {"when": {"device": "cuda"}, "because": "the build for CPUs is used here, which knows no GPU"},
    ],
}


class Session(base.Session):
    """One trial in MXNet."""

    layer_method = "pieces"

    def __init__(self, job: TrialJob, graph: Graph, weights: Dict[Key, np.ndarray], group: GroupJob, store: Any):
        self.job, self.group = job, group
        mx.random.seed(job.seed)
        self.block = build_block(graph, weights)
        self.block.hybridize(static_alloc=True, static_shape=True)
        self.criterion = _criterion(graph.loss)
        self.weights = {key: self.block.parameter(*key) for key in _trainable(graph)}
        for parameter in self.weights.values():
            parameter.grad_req = "add" if job.accumulate > 1 else "write"
        self.store: Optional[Store] = store if job.learns else None
        self.overlap_method = "difference" if self.store is not None else "none"
        self.updater = mx.optimizer.get_updater(optimizer(job, 1.0 / group.workers))
        if self.store is not None:
            self.store.begin(job, [parameter.data() for parameter in self.weights.values()])
        self.batch: Optional[Tuple[mx.nd.NDArray, mx.nd.NDArray]] = None
        self.value: Optional[mx.nd.NDArray] = None
        self.share = 1.0  # of the gradients now held: they are sums over the ranks after an exchange
        self.seen = 0  # batches that the running means are of
        self.twin: Any = None

    def source(self) -> base.Source:
        """Batches from the data set's files."""
        return base.FileSource(self.job, self.group.rank, self.group.workers)

    def synchronize(self) -> None:
        """Wait for the engine."""
        mx.nd.waitall()

    def step(self, batch: Any, last: bool) -> None:
        """One iteration, queued."""
        self.load(batch)
        self.forward()
        self.backward()
        if last:
            self.exchange()
            self.update()

    def step_alone(self, batch: Any, last: bool) -> None:
        """The step with an update by this rank's own gradients; an asynchronous rank leaves it to the server."""
        self.load(batch)
        self.forward()
        self.backward()
        if last:
            self.update()

    def load(self, batch: Any) -> None:
        """Copy the batch to MXNet's own memory."""
        samples, labels = batch
        self.batch = mx.nd.array(samples), mx.nd.array(labels, dtype="float32")

    def forward(self) -> None:
        """The loss of the loaded batch, scaled for accumulation."""
        samples, labels = self.batch
        self.seen += 1
        with autograd.record():
            self.value = self.job.share(self.criterion(self.block(samples), samples, labels).mean())

    def backward(self) -> None:
        """Local gradients."""
        self.value.backward()
        self.share = 1.0

    def meet(self) -> None:
        """A barrier; asynchronous ranks meet nobody."""
        if self.store is not None and not self.store.asynchronous:
            self.store.barrier()

    def exchange(self) -> None:
        """Gradients to the server; their sums, or the new weights, back."""
        if self.store is None:
            return
        gradients = self._gradients()
        if self.store.asynchronous:
            self.store.swap(gradients, [weight.data() for weight in self.weights.values()])
        else:
            self.store.swap(gradients, gradients)
            self.share = 1.0 / self.group.workers

    def _gradients(self) -> List[mx.nd.NDArray]:
        return [parameter.grad() for parameter in self.weights.values()]

    def update(self) -> None:
        """Optimiser step (if the server has not done it), gradients to zero."""
        if self.store is None or not self.store.asynchronous:
            numbers = list(range(len(self.weights)))
            self.updater(numbers, self._gradients(), [weight.data() for weight in self.weights.values()])
        if self.job.accumulate > 1:
            for parameter in self.weights.values():
                parameter.zero_grad()

    def layer_times(self, batch: Any) -> Dict[str, Dict[str, float]]:
        """Seconds per layer, each run as a hybridised block of its own."""
        self.load(batch)
        samples, labels = self.batch
        clock = LayerClock(self.block)
        output = clock.forward(samples)
        output.attach_grad()
        with autograd.record():
            self.value = self.criterion(output, samples, labels).mean()
        self.value.backward()
        clock.backward(output.grad)
        for parameter in self.weights.values():
            parameter.zero_grad()
        self.value = self.job.share(self.value)
        return clock.seconds

    def kernels(self) -> Dict[str, str]:
        """MXNet's fused attention takes another layout and no mask; ours is of products and a softmax."""
        return {"attention": "plain"} if self.block.graph.has_attention else {}

    def gradients(self) -> Dict[Key, np.ndarray]:
        """The gradients as arrays."""
        return {key: weight.grad().asnumpy() * np.float32(self.share) for key, weight in self.weights.items()}

    def parameters(self) -> Dict[Key, np.ndarray]:
        """The weights as arrays."""
        return {key: weight.data().asnumpy() for key, weight in self.weights.items()}

    def count_exchanges(self) -> Callable[[], int]:
        """Count the pushes of the first array to the servers."""
        return self.store.count_pushes()

    def outputs(self) -> np.ndarray:
        """What the last inference gave."""
        return self.value.asnumpy()

    def infer(self) -> None:
        """Forward in prediction mode, queued."""
        self.value = self.block(self.batch[0])

    def reseed(self, seed: int) -> None:
        """Seed MXNet's generators."""
        mx.random.seed(seed % 2**31)

    def predictor(self) -> Callable[[np.ndarray], np.ndarray]:
        """A block of its own with the weights of now and the unbiased running variances."""
        graph = self.block.graph
        held = {key: self.block.parameter(*key).data().asnumpy() for key in [*self.weights, *_buffers(graph)]}
        held.update(unbiased(graph, held, self.job.batch_size, self.seen))
        if self.twin is None:
            self.twin = build_block(graph, held)
            self.twin.hybridize(static_alloc=True, static_shape=True)
        for key, array in held.items():
            self.twin.parameter(*key).set_data(mx.nd.array(array))
        return lambda samples: self.twin(mx.nd.array(samples)).asnumpy()

    def state(self) -> Dict[str, np.ndarray]:
        """Weights, running means, the updater's arrays and counts."""
        counted = {"seen": np.array(self.seen), "updates": np.array(self.updater.optimizer.num_update)}
        return dict(counted, **{name: array.asnumpy() for name, array in self._held().items()})

    def _held(self) -> Dict[str, mx.nd.NDArray]:
        keys = [*self.weights, *_buffers(self.block.graph)]
        arrays = {"array/%s/%s" % key: self.block.parameter(*key).data() for key in keys}
        for number, parameter in enumerate(self.weights.values()):
            for at, array in enumerate(memory(self.updater, number, parameter.data())):
                arrays["updater/%d/%d" % (number, at)] = array
        return arrays

    def restore(self, state: Dict[str, np.ndarray]) -> None:
        """Into the same arrays."""
        for name, array in self._held().items():
            array[:] = mx.nd.array(state[name])
        self.seen = int(state["seen"])
        set_updates(self.updater.optimizer, len(self.weights), int(state["updates"]))

    def loss(self) -> float:
        """The last batch's loss (of an inference: the mean of its outputs)."""
        return float(self.value.mean().asscalar()) * (self.job.accumulate if self.job.learns else 1)

    def close(self) -> None:
        """Free the network: blocks and parameters point at each other."""
        mx.nd.waitall()
        self.block = self.twin = self.criterion = self.updater = self.value = self.batch = None
        self.weights = {}
        gc.collect()


def _trainable(graph: Graph) -> List[Key]:
    return [(layer.name, name) for layer in graph.layers for name in layer.weights]


def _buffers(graph: Graph) -> List[Key]:
    return [(layer.name, name) for layer in graph.layers for name in layer.buffers]


def unbiased(graph: Graph, held: Dict[Key, np.ndarray], batch_size: int, seen: int) -> Dict[Key, np.ndarray]:
    """The running variances of a graph after that many batches, as the graph defines them.

    MXNet's are means of biased variances and of what they began with, 1: that part keeps its share (1 − momentum)^seen,
    the rest grows by n/(n − 1), n being the values per channel.
    """
    variances = {}
    for layer in graph.layers:
        if "variance" in layer.buffers:
            n = batch_size * size(layer.shape[1:])
            first = (1.0 - layer.options["momentum"]) ** seen
            grown = (held[layer.name, "variance"] - first) * (n / max(n - 1, 1))
            variances[layer.name, "variance"] = (first + grown).astype(np.float32)
    return variances


def _criterion(loss: str) -> Any:
    """The loss per sample, or of the batch, hybridised like the network."""
    function = LOSSES.get(loss, SoftmaxCrossEntropyLoss)()
    function.hybridize(static_alloc=True, static_shape=True)
    if loss == "reconstruction":
        return lambda output, samples, labels: function(output, samples.flatten())
    return lambda output, samples, labels: function(output, labels)


class MaskedCrossEntropy(HybridBlock):
    """The mean cross-entropy over the positions of a batch that are to be predicted."""

    def hybrid_forward(self, F: Any, output: Any, labels: Any) -> Any:
        told = labels >= 0
        losses = -F.pick(F.log_softmax(output, axis=-1), F.maximum(labels, 0), axis=-1)
        return F.broadcast_div(F.sum(losses * told), F.sum(told))


LOSSES = {"reconstruction": lambda: L2Loss(weight=2.0), "masked-token": MaskedCrossEntropy}


class Adapter(base.Adapter):
    """MXNet in one rank."""

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        super().__init__(group, rendezvous)
        self.store = Store(group, rendezvous) if group.workers > 1 else None

    def versions(self) -> Dict[str, str]:
        """MXNet and the device."""
        return dict(super().versions(), mxnet=mx.__version__, device="cpu")

    def session(self, job: TrialJob, graph: Graph, weights: Dict[Key, np.ndarray]) -> Session:
        """Build the network and its optimiser."""
        return Session(job, graph, weights, self.group, self.store)
