"""Chainer: define by run; several ranks are one MPI job and average gradients with ChainerMN.

Native mode is the loop a ChainerMN user writes: forward, backward, and the multi-node optimiser, which averages all
gradients with the `naive` communicator (the one without GPUs) and updates. Nothing overlaps. Phased mode calls the
same parts one by one.
"""

from __future__ import annotations

import gc
import math
import random
import time
from typing import Any, Callable, Dict, Optional, Tuple

import chainer
import chainer.functions as F  # noqa: N812 - as every Chainer user knows it
import numpy as np

from steplab_worker import adapter as base
from steplab_worker.adapters.chainer.layers import LayerClock, build_chain
from steplab_worker.graph import UNTOLD, Graph
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.rendezvous import Rendezvous
from steplab_worker.weights import Key

DECLARATION = {
    "title": "Chainer",
    "pins": ["numpy==1.23.5", "setuptools<70", "wheel", "mpi4py>=4,<5", "pillow>=11,<14", "nibabel>=5.3,<5.4"],
    "further_pins": [{"flags": ["--no-build-isolation"], "packages": ["chainer==7.8.1"]}],
    "module": "chainer",
    "doors": "Open MPI's launcher on all addresses, with a credential of its own",
    "debian": ["openmpi-bin", "libopenmpi-dev"],
    "kinds": ["step", "train", "infer"],
    "strategies": ["sync", "accumulate"],
    "layers": "all",
    # The communicator sends array after array.
    "exchange": {"by": "MPI", "grouping": "arrays"},
    "factors": {},
    "launcher": "mpiexec",
    "unsupported": [
        {"when": {"device": "cuda"}, "because": "without CuPy, which it is installed without, it knows no GPU"},
    ],
}


class Session(base.Session):
    """One trial in Chainer."""

    layer_method = "hooks"

    def __init__(self, job: TrialJob, graph: Graph, weights: Dict[Key, np.ndarray], group: GroupJob, communicator: Any):
        self.job, self.group = job, group
        # Chainer draws from NumPy's global generator.
        np.random.seed(job.seed % 2**32)
        random.seed(job.seed)
        chainer.config.train = job.learns
        chainer.config.enable_backprop = job.learns
        self.chain = build_chain(graph, weights)
        self.keys = [(layer.name, name) for layer in graph.layers for name in layer.weights]
        self.criterion = _criterion(graph.loss)
        self.communicator = communicator if job.learns else None
        self.overlap_method = "hook" if self.communicator is not None else "none"
        self.averaging = 0.0  # seconds of the last average, in mode `overlap`
        self.optimizer = _optimizer(job).setup(self.chain)
        self.chain.cleargrads()
        self.whole = self.optimizer if self.communicator is None else self._multi_node()
        self.batch: Optional[Tuple[np.ndarray, np.ndarray]] = None
        self.value: Optional[chainer.Variable] = None

    def _multi_node(self) -> Any:
        import chainermn

        optimizer = chainermn.create_multi_node_optimizer(self.optimizer, self.communicator)
        # Its first update only copies the weights of rank 0 to all; the trial's updates come after it.
        optimizer.update()
        return optimizer

    def source(self) -> base.Source:
        """Batches from the data set's files."""
        return base.FileSource(self.job, self.group.rank, self.group.workers)

    def step(self, batch: Any, last: bool) -> None:
        """One iteration as a Chainer user writes it."""
        self.load(batch)
        self.forward()
        self.backward()
        if last:
            self.whole.update()
            self.chain.cleargrads()

    def load(self, batch: Any) -> None:
        """The batch as Chainer takes it: NumPy's own arrays, labels as 32-bit integers."""
        samples, labels = batch
        self.batch = samples, labels.astype(np.int32)

    def forward(self) -> None:
        """The loss of the loaded batch, scaled for accumulation."""
        samples, labels = self.batch
        self.value = self.job.share(self.criterion(self.chain(samples), samples, labels))

    def backward(self) -> None:
        """Local gradients, added to those that are there."""
        self.value.backward()

    def meet(self) -> None:
        """A barrier."""
        if self.communicator is not None:
            self.communicator.mpi_comm.Barrier()

    def exchange(self) -> None:
        """Average the gradients over the ranks."""
        if self.communicator is not None:
            self.communicator.multi_node_mean_grad(self.chain)

    def update(self) -> None:
        """Optimiser step, gradients away."""
        self.optimizer.update()
        self.chain.cleargrads()

    def layer_times(self, batch: Any) -> Dict[str, Dict[str, float]]:
        """Seconds per layer: forward around each layer, backward around the functions that it called."""
        self.load(batch)
        samples, labels = self.batch
        with LayerClock(self.chain) as clock:
            self.value = self.criterion(clock.forward(samples), samples, labels)
            self.value.backward()
        self.value = self.job.share(self.value)
        self.chain.cleargrads()
        return clock.seconds

    def kernels(self) -> Dict[str, str]:
        """Chainer has no fused attention."""
        return {"attention": "plain"} if self.chain.graph.has_attention else {}

    def gradients(self) -> Dict[Key, np.ndarray]:
        """The gradients as arrays."""
        return {key: self.chain.parameter(*key).grad.copy() for key in self.keys}

    def parameters(self) -> Dict[Key, np.ndarray]:
        """The weights as arrays."""
        return {key: self.chain.array(*key).copy() for key in self.keys}

    def count_exchanges(self) -> Callable[[], int]:
        """Count how often ChainerMN's optimiser has its communicator average the gradients."""
        counted, average = [0], self.communicator.multi_node_mean_grad

        def hook(*arguments: Any, **more: Any) -> None:
            counted[0] += 1
            average(*arguments, **more)

        # Hides the communicator's own method until the trial is closed.
        self.communicator.multi_node_mean_grad = hook
        return lambda: counted[0]

    def enter(self, mode: str) -> None:
        """For mode `overlap`, stand around the communicator's average, as long as the trial lasts."""
        if mode == "overlap":
            average = self.communicator.multi_node_mean_grad

            def timed(*arguments: Any, **more: Any) -> None:
                start = time.perf_counter()
                average(*arguments, **more)
                self.averaging = time.perf_counter() - start

            self.communicator.multi_node_mean_grad = timed

    def communication(self) -> Tuple[float, float]:
        """The average comes after backward: all of it is exposed."""
        seconds, self.averaging = self.averaging, 0.0
        return seconds, seconds

    def outputs(self) -> np.ndarray:
        """What the last inference gave."""
        return self.value.array.copy()

    def infer(self) -> None:
        """Forward without gradients."""
        self.value = self.chain(self.batch[0])

    def loss(self) -> float:
        """The last batch's loss (of an inference: the mean of its outputs)."""
        return float(self.value.array.mean()) * (self.job.accumulate if self.job.learns else 1)

    def reseed(self, seed: int) -> None:
        """Seed NumPy's global generator, from which Chainer draws."""
        np.random.seed(seed % 2**32)
        random.seed(seed)

    def predictor(self) -> Callable[[np.ndarray], np.ndarray]:
        """The chain in test mode."""

        def predict(samples: np.ndarray) -> np.ndarray:
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                return self.chain(samples).array

        return predict

    def state(self) -> Dict[str, np.ndarray]:
        """Weights, running means, and what the update rules hold."""
        return {name: np.array(array) for name, array in self._held().items()}

    def _held(self) -> Dict[str, np.ndarray]:
        """The arrays themselves, and the number of updates."""
        arrays = {"optimizer/updates": np.array(self.optimizer.t)}
        for layer in self.chain.graph.layers:
            for name in [*layer.weights, *layer.buffers]:
                arrays["array/%s/%s" % (layer.name, name)] = self.chain.array(layer.name, name)
            for name in layer.weights:
                parameter = self.chain.parameter(layer.name, name)
                # As the first update would: a rule makes what it remembers only then.
                parameter.update_rule._init_states(parameter)
                for what, array in parameter.update_rule.state.items():
                    arrays["optimizer/%s/%s/%s" % (layer.name, name, what)] = array
        return arrays

    def restore(self, state: Dict[str, np.ndarray]) -> None:
        """Into the same arrays."""
        for name, array in self._held().items():
            array[...] = state[name]
        self.optimizer.t = int(state["optimizer/updates"])
        for key in self.keys:
            self.chain.parameter(*key).update_rule.t = self.optimizer.t

    def close(self) -> None:
        """Free the graph of the last iteration: its nodes point at each other."""
        if self.communicator is not None:
            vars(self.communicator).pop("multi_node_mean_grad", None)
        self.value = None
        gc.collect()


def _criterion(loss: str) -> Any:
    if loss == "reconstruction":
        return lambda output, samples, labels: F.mean_squared_error(output, samples.reshape(len(samples), -1))
    # The labels of sequences are one per position.
    return lambda output, samples, labels: F.softmax_cross_entropy(
        F.reshape(output, (-1, output.shape[-1])), labels.ravel(), ignore_label=UNTOLD
    )


class Adam(chainer.optimizers.Adam):
    """Adam with epsilon beside the corrected root, sqrt(v/(1 − β2^t)) + ε, as its paper and PyTorch have it.

    Chainer's own is lr·sqrt(1 − β2^t)/(1 − β1^t)·m/(sqrt(v) + ε): the same with ε·sqrt(1 − β2^t) in place of ε.
    """

    def update(self, lossfun: Any = None, *args: Any, **kwds: Any) -> None:
        """One update of all weights."""
        self.eps = 1e-8 * math.sqrt(1.0 - self.beta2 ** (self.t + 1))
        super().update(lossfun, *args, **kwds)


def _optimizer(job: TrialJob) -> Any:
    if job.optimizer == "adam":
        return Adam(alpha=job.learning_rate)
    if job.optimizer == "momentum":
        return chainer.optimizers.MomentumSGD(lr=job.learning_rate, momentum=0.9)
    return chainer.optimizers.SGD(lr=job.learning_rate)


class Adapter(base.Adapter):
    """Chainer in one rank."""

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        super().__init__(group, rendezvous)
        self.communicator = _communicator() if group.workers > 1 else None

    def versions(self) -> Dict[str, str]:
        """Chainer, the MPI library, and the device."""
        return dict(super().versions(), chainer=chainer.__version__, mpi=self._mpi(), device="cpu")

    def _mpi(self) -> str:
        if self.communicator is None:
            return ""
        from mpi4py import MPI

        return MPI.Get_library_version().split(",")[0]

    def session(self, job: TrialJob, graph: Graph, weights: Dict[Key, np.ndarray]) -> Session:
        """Build the network and its optimiser."""
        return Session(job, graph, weights, self.group, self.communicator)

    def close(self) -> None:
        """Leave the MPI job; mpiexec takes an end without it for an accident."""
        if self.communicator is not None:
            from mpi4py import MPI

            MPI.Finalize()


def _communicator() -> Any:
    import chainermn

    return chainermn.create_communicator("naive")
