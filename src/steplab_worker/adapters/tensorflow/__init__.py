"""TensorFlow: a step compiled by `tf.function`, or Keras' `fit`; MultiWorkerMirroredStrategy or MirroredStrategy.

Native mode is the custom loop of TensorFlow's guides (gradients, all-reduce and update in one compiled function per
batch), or `fit`. Phased mode compiles forward, backward, exchange and update apart: an eager tape around the compiled
forward function makes TensorFlow run a compiled backward function of its own. The phases of `fit` are those of the
custom loop, for `fit` has no parts. CPU kernels know channels-last only; `load` transposes, so that is in t_h2d.

With `distribution = mirrored` one process holds a replica per worker, each on a logical CPU device of its own (or a
GPU); its batch is that of all workers, its threads are those of all workers.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import socket
from typing import Any, Callable, Dict, List, Optional

import numpy as np

# Read by TensorFlow: no banner in the log, and its server may bind the port that we hold for it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_GRPC_REUSE_PORT"] = "1"

import tensorflow as tf
import tf_keras

from steplab_worker import adapter as base
from steplab_worker.adapters import _channels_last as last_
from steplab_worker.adapters._pieces import LayerWalk, TooLong
from steplab_worker.adapters.tensorflow.keras_fit import FitLoop, make_optimizer
from steplab_worker.adapters.tensorflow.layers import Network, to_last
from steplab_worker.adapters.tensorflow.pieces import TensorFlowPieces
from steplab_worker.adapters.tensorflow.place import Place, devices
from steplab_worker.adapters.tensorflow.programs import Programs, exchanges, whole_arrays
from steplab_worker.graph import Graph
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.rendezvous import Rendezvous
from steplab_worker.weights import Key

DECLARATION = {
    "title": "TensorFlow",
    "pins": ["tensorflow-cpu==2.21.0", "numpy>=2,<3", "pillow>=11,<14", "nibabel>=5.3,<6"],
    # With its dependencies it would bring the full TensorFlow, GPU libraries included.
    "further_pins": [{"flags": ["--no-deps"], "packages": ["tf_keras==2.21.0"]}],
    "module": "tensorflow",
    "doors": "each rank's gRPC server on all addresses, which reads and writes files for whoever connects",
    "kinds": ["step", "train", "infer"],
    "strategies": ["sync", "accumulate"],
    "layers": "all",
    # Gradients are packed into one array, as long as no bytes_per_pack is given.
    "exchange": {"by": "ring, on GPUs NCCL", "grouping": "whole"},
    "precisions": ["float32", "bfloat16"],
    "factors": {
        "loop": {
            "default": "custom",
            "help": "a custom loop with tf.function, or Keras' fit",
            "levels": ["custom", "fit"],
        },
        "distribution": {
            "default": "multiworker",
            "help": "a process per worker, or one process with a device per worker",
            "levels": ["multiworker", "mirrored"],
        },
    },
    "single_process": {"distribution": ["mirrored"]},
    "unsupported": [
        {
            "when": {"loop": "fit", "strategy": "accumulate"},
            "because": "Keras' fit exchanges and updates after every batch; accumulation needs loop = custom",
        },
        {
            "when": {"loop": "fit", "kind": "train"},
            "because": "Keras' fit tells only the mean loss since its start; training trials need loop = custom",
        },
        {
            "when": {"distribution": "mirrored", "nodes": "several"},
            "because": "one process with all replicas is on one host; several need distribution = multiworker",
        },
        {
            "when": {"distribution": "mirrored", "device": "cuda", "workers": "several"},
            "because": "a process sees one GPU, and its replicas need one each; use distribution = multiworker",
        },
    ],
}


class Session(base.Session):
    """One trial in TensorFlow."""

    def __init__(self, job: TrialJob, graph: Graph, weights: Dict[Key, np.ndarray], place: Place):
        self.job, self.graph, self.place, self.strategy = job, graph, place, place.strategy
        tf.random.set_seed(job.seed)
        with self.strategy.scope():
            self.net = Network(graph, weights, job.precision)
            self.variables = list(self.net.trained.values())
            self.optimizer = make_optimizer(job)
            self.optimizer.build(self.variables)
            self.programs = Programs(job, self.net, self.optimizer, place)
        self.splits = place.replicas > 1
        self.layer_method = "none: several replicas in one process" if self.splits else "pieces"
        self.pieces: Optional[TensorFlowPieces] = None
        self.walk: Optional[LayerWalk] = None
        self.overlap_method = "difference" if place.workers > 1 and job.learns else "none"
        self.fit: Optional[FitLoop] = None
        self.twin: Optional[Twin] = None
        self.batch: Any = None
        self.tape: Any = None
        self.value: Any = None
        self.local: List[List[Any]] = []  # gradients by replica of this process and variable
        self.counted: Optional[int] = None

    def enter(self, mode: str) -> None:
        """Start or end Keras' `fit`, if that is the loop."""
        if self.fit is not None:
            self.fit.close()
            self.fit = None
        if mode == "native" and self.job.options["loop"] == "fit" and self.job.learns:
            self.fit = FitLoop(self.net, self.optimizer, self.strategy, self.job.batch_size)

    def source(self) -> base.Source:
        """Batches from the data set's files: this rank's, or those of all replicas at once."""
        if self.place.replicas == 1:
            return base.FileSource(self.job, self.place.rank, self.place.ranks)
        whole = dataclasses.replace(self.job, batch_size=self.job.batch_size * self.place.replicas)
        return base.FileSource(whole, 0, 1)

    def synchronize(self) -> None:
        """Wait for a GPU; a CPU is done when the call returns."""
        if self.place.gpus:
            tf.test.experimental.sync_devices()

    def step(self, batch: Any, last: bool) -> None:
        """One iteration in one compiled function, or of `fit`."""
        if self.fit is not None:
            samples, labels = batch
            self.value = self.fit.step(tf.convert_to_tensor(to_last(samples)), labels)
            return
        self.load(batch)
        program = self.programs.whole if last else self.programs.part
        self.value = program(*self.batch)
        if self.counted is not None:
            self.counted += exchanges(program.get_concrete_function(*self.batch))

    def step_alone(self, batch: Any, last: bool) -> None:
        """The custom loop's compiled function without its all-reduce; the replicas' weights part."""
        self.load(batch)
        self.value = (self.programs.alone if last else self.programs.part)(*self.batch)

    def load(self, batch: Any) -> None:
        """Host to device, channels last; a part for each replica."""
        self.bring(batch)
        self.split()

    def bring(self, batch: Any) -> None:
        """Host to device, channels last."""
        samples, labels = batch
        self.batch = tf.convert_to_tensor(to_last(samples)), tf.convert_to_tensor(labels)

    def split(self) -> None:
        """A part of the batch for each replica of this process."""
        samples, labels = self.batch
        self.batch = self.place.spread(samples), self.place.spread(labels)

    def forward(self) -> None:
        """The compiled forward function, under a tape."""
        with tf.GradientTape() as self.tape:
            self.value = self.place.local(self.programs.forward(*self.batch))

    def backward(self) -> None:
        """The compiled backward function; gradients of an accumulation are added up."""
        copies = [self.place.local(variable) for variable in self.variables]
        gradients = self.tape.gradient(self.value, [list(replica) for replica in zip(*copies)])
        gradients = [whole_arrays(replica) for replica in gradients]
        self.tape = None
        self.local = self.programs.add(self.local, gradients) if self.local else gradients

    def meet(self) -> None:
        """An all-reduce of one number; the replicas of one process have met already."""
        if self.place.processes > 1:
            self.programs.barrier()

    def exchange(self) -> None:
        """Average the gradients over all replicas."""
        if self.place.workers > 1:
            averaged = self.programs.average(self.place.gather(self.local))
            self.local = [list(gradient) for gradient in zip(*[self.place.local(value) for value in averaged])]

    def update(self) -> None:
        """The optimiser's step."""
        self.programs.update(self.place.gather(self.local))
        self.local = []

    def layer_times(self, batch: Any) -> Optional[Dict[str, Dict[str, float]]]:
        """Seconds per layer, each compiled alone; None if that takes too long, or for several replicas."""
        if self.splits:
            return None
        self.load(batch)
        samples, labels = self.batch
        if self.walk is None:
            self.pieces = TensorFlowPieces(self.net, self.strategy)
            self.walk = LayerWalk(self.graph, self.pieces)
        self.pieces.loss = lambda output: self.programs.loss_of(output, samples, labels)
        try:
            return self.walk.times(samples)
        except TooLong as reason:
            self.layer_method = "none: %s" % reason
            return None

    def infer(self) -> None:
        """The compiled forward function of inference."""
        self.value = self.programs.infer(self.batch[0])

    def loss(self) -> float:
        """The last batch's loss on the first replica here.

        Of `fit` it is Keras' mean over all batches since its start; of an inference, the mean of the outputs.
        """
        first = self.value if isinstance(self.value, (list, tuple)) else self.place.local(self.value)
        factor = 1 if self.fit is not None or not self.job.learns else self.job.accumulate
        return float(np.mean(np.asarray(first[0]))) * factor

    def outputs(self) -> np.ndarray:
        """What the last inference gave."""
        return np.concatenate([value.numpy() for value in self.place.local(self.value)])

    def kernels(self) -> Dict[str, str]:
        """TensorFlow has no fused attention for CPUs; Keras' own layer is of products and a softmax, too."""
        return {"attention": "plain"} if self.graph.has_attention else {}

    def gradients(self) -> Dict[Key, np.ndarray]:
        """The gradients of the first replica here."""
        gradients = {key: gradient.numpy() for key, gradient in zip(self.net.trained, self.local[0])}
        return last_.all_outward(self.graph, gradients)

    def parameters(self) -> Dict[Key, np.ndarray]:
        """The weights of the first replica here."""
        weights = {key: self.place.local(variable)[0].numpy() for key, variable in self.net.trained.items()}
        return last_.all_outward(self.graph, weights)

    def predictor(self) -> Callable[[np.ndarray], np.ndarray]:
        """A network of its own outside the strategy, with the numbers of the first replica here."""
        held = {**self.net.trained, **self.net.buffers}
        arrays = last_.all_outward(
            self.graph, {key: self.place.local(variable)[0].numpy() for key, variable in held.items()}
        )
        self.twin = self.twin or Twin(self.graph, arrays, self.job.precision)
        return self.twin.now(arrays)

    def state(self) -> Dict[str, np.ndarray]:
        """The variables of the first replica here."""
        return {name: np.array(self.place.local(variable)[0].numpy()) for name, variable in self._held().items()}

    def restore(self, state: Dict[str, np.ndarray]) -> None:
        """Into the variables of every replica here."""
        for name, variable in self._held().items():
            for copy in self.place.local(variable):
                copy.assign(state[name])

    def _held(self) -> Dict[str, Any]:
        variables = {"trained/%s/%s" % key: variable for key, variable in self.net.trained.items()}
        variables.update({"buffer/%s/%s" % key: variable for key, variable in self.net.buffers.items()})
        variables.update({"optimizer/%d" % at: variable for at, variable in enumerate(self.optimizer.variables)})
        return variables

    def count_exchanges(self) -> Callable[[], int]:
        """Count the collective operations in the graphs that native steps run."""
        self.counted = 0
        return lambda: int(self.counted or 0)

    def close(self) -> None:
        """Forget the compiled functions, so that trial after trial takes no more memory."""
        self.enter("closed")
        self.__dict__.clear()
        tf_keras.backend.clear_session()
        gc.collect()


class Twin:
    """The network once more, in plain variables: looking at the accuracy needs no other replica or rank."""

    def __init__(self, graph: Graph, weights: Dict[Key, np.ndarray], precision: str):
        self.graph, self.net = graph, Network(graph, weights, precision)
        self.run = tf.function(lambda samples: self.net.run(to_last(samples), False))

    def now(self, weights: Dict[Key, np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        """Predictions with these weights and running means."""
        held = {**self.net.trained, **self.net.buffers}
        for key, array in last_.all_inward(self.graph, list(held), weights).items():
            held[key].assign(array)
        return lambda samples: self.run(tf.convert_to_tensor(samples)).numpy()


class Adapter(base.Adapter):
    """TensorFlow in one rank."""

    phase_method = "separate-compilation"

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        super().__init__(group, rendezvous)
        self.expect_device(bool(tf.config.list_physical_devices("GPU")))
        tf.get_logger().setLevel("ERROR")  # a trial's functions are traced anew; it would warn of that
        self.place: Optional[Place] = None
        self.holder: Optional[socket.socket] = None

    def versions(self) -> Dict[str, str]:
        """TensorFlow, Keras, and the device."""
        device = "gpu" if tf.config.list_physical_devices("GPU") else "cpu"
        return dict(super().versions(), tensorflow=tf.__version__, tf_keras=tf_keras.__version__, device=device)

    def session(self, job: TrialJob, graph: Graph, weights: Dict[Key, np.ndarray]) -> Session:
        """Build the network where the group's strategy puts it; the first trial of a process makes the strategy."""
        if self.place is None:
            self.place = self._place(job)
        return Session(job, graph, weights, self.place)

    def _place(self, job: TrialJob) -> Place:
        rank, workers, threads = self.group.rank, self.group.workers, self.group.threads
        mirrored = workers > 1 and job.options["distribution"] == "mirrored"
        _set_threads(threads * workers if mirrored else threads)
        if mirrored:
            return Place(tf.distribute.MirroredStrategy(devices(workers)), 0, 1, workers, workers)
        if workers > 1 and job.learns:
            servers, self.holder = self.rendezvous.addresses()
            os.environ["TF_CONFIG"] = json.dumps(
                {"cluster": {"worker": servers}, "task": {"type": "worker", "index": rank}}
            )
            return Place(tf.distribute.MultiWorkerMirroredStrategy(), rank, workers, workers)
        return Place(tf.distribute.get_strategy(), rank, workers, 1)


def _set_threads(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
