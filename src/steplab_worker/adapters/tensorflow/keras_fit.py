"""Keras' own training loop, `fit`, driven one batch at a time, and the optimisers of both loops.

Keras 3 cannot `fit` under MultiWorkerMirroredStrategy; the legacy package tf_keras can, and serves for all.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Dict, Iterator, Optional, Tuple

import tensorflow as tf
import tf_keras

from steplab_worker.adapters.tensorflow.layers import Network, flat
from steplab_worker.graph import UNTOLD, size
from steplab_worker.job import TrialJob

# More than any trial runs; `fit` must be told a number, and ends when the batches do.
ENDLESS = 1 << 40


class PlainSGD(tf_keras.optimizers.Optimizer):
    """Gradient descent without momentum, as in Keras 3 and in every other framework.

    tf_keras' own moves a momentum of zero along: two more arrays to write and read for each variable.
    """

    def __init__(self, learning_rate: float):
        super().__init__(name="SGD", weight_decay=None, jit_compile=False)
        self._learning_rate = self._build_learning_rate(learning_rate)

    def update_step(self, gradient: Any, variable: Any) -> None:
        """One update of a variable."""
        variable.assign_sub(gradient * tf.cast(self.learning_rate, variable.dtype))


class Adam(tf_keras.optimizers.Adam):
    """Adam as its paper's algorithm 1 and PyTorch have it: epsilon is added after the bias correction.

    Keras adds it before (the paper's "epsilon hat"), which is another step size while sqrt(v) is near epsilon.
    """

    def update_step(self, gradient: Any, variable: Any) -> None:
        """One update of a variable and its two moments."""
        step = tf.cast(self.iterations + 1, variable.dtype)
        index = self._index_dict[self._var_key(variable)]
        first, second = self._momentums[index], self._velocities[index]
        first.assign_add((gradient - first) * (1 - self.beta_1))
        second.assign_add((tf.square(gradient) - second) * (1 - self.beta_2))
        corrected = tf.sqrt(second / (1 - tf.pow(tf.cast(self.beta_2, step.dtype), step))) + self.epsilon
        rate = self.learning_rate / (1 - tf.pow(tf.cast(self.beta_1, step.dtype), step))
        variable.assign_sub(rate * first / corrected)


def make_optimizer(job: TrialJob) -> Any:
    """The trial's update rule; Keras' momentum is the same as PyTorch's as long as the rate is constant."""
    if job.optimizer == "adam":
        return Adam(learning_rate=job.learning_rate, epsilon=1e-8, jit_compile=False)
    if job.optimizer == "momentum":
        return tf_keras.optimizers.SGD(learning_rate=job.learning_rate, momentum=0.9, jit_compile=False)
    return PlainSGD(job.learning_rate)


class KerasNetwork(tf_keras.Model):
    """The network as Keras sees it: variables to train and a call."""

    def __init__(self, net: Network):
        super().__init__()
        self.trained = list(net.trained.values())
        self.run = net.run

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The network's output."""
        return self.run(inputs, training)


class FitLoop:
    """`fit` in a thread of its own: it asks for a batch, trains, and says when the batch is done.

    `batch_size` is that of one replica.
    """

    def __init__(self, net: Network, optimizer: Any, strategy: Any, batch_size: int):
        self.net, self.strategy, self.batch_size = net, strategy, batch_size
        self.inbox: "queue.Queue[Optional[Tuple[Any, Any]]]" = queue.Queue()
        self.outbox: "queue.Queue[Any]" = queue.Queue()
        with strategy.scope():
            self.model = KerasNetwork(net)
            self.model.compile(optimizer=optimizer, loss=_loss(net.graph.loss))
        self.thread = threading.Thread(target=self._run, name="fit", daemon=True)
        self.thread.start()

    def step(self, samples: Any, labels: Any) -> Any:
        """Train on one batch, a part of it on each replica of this process; its loss."""
        for start in range(0, len(labels), self.batch_size):
            part = slice(start, start + self.batch_size)
            self.inbox.put((samples[part], labels[part]))
        answer = self.outbox.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """Let `fit` run out of batches."""
        self.inbox.put(None)
        self.thread.join()

    def _run(self) -> None:
        try:
            with self.strategy.scope():
                batches = self.strategy.distribute_datasets_from_function(lambda context: self._dataset())
                tick = _Tick(self.outbox)
                self.model.fit(batches, steps_per_epoch=ENDLESS, epochs=1, verbose=0, callbacks=[tick])
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the batch
            self.outbox.put(error)

    def _dataset(self) -> Any:
        graph, n = self.net.graph, self.batch_size
        channels, *extents = graph.input_shape
        samples, labels = tf.float32, ()
        if graph.loss in ("next-token", "masked-token"):
            samples, labels = tf.int32, graph.input_shape
        target = tf.TensorSpec((n, *labels), tf.int64)
        if graph.loss == "reconstruction":
            target = tf.TensorSpec((n, size(graph.input_shape)), tf.float32)
        # Static shapes: otherwise the workers ask each other before each batch whether all have one.
        signature = (tf.TensorSpec((n, *extents, channels), samples), target)
        dataset = tf.data.Dataset.from_generator(self._batches, output_signature=signature)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return dataset.with_options(options)

    def _batches(self) -> Iterator[Tuple[Any, Any]]:
        graph = self.net.graph
        while True:
            batch = self.inbox.get()
            if batch is None:
                return
            samples, labels = batch
            yield samples, flat(samples, graph.input_shape) if graph.loss == "reconstruction" else labels


class _Tick(tf_keras.callbacks.Callback):
    """Says when a batch is done."""

    _supports_tf_logs = True  # or Keras copies the logs into NumPy after each batch

    def __init__(self, outbox: "queue.Queue[Any]"):
        super().__init__()
        self.outbox = outbox

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.outbox.put((logs or {}).get("loss"))


def _loss(loss: str) -> Any:
    if loss == "reconstruction":
        return tf_keras.losses.MeanSquaredError()
    untold = UNTOLD if loss == "masked-token" else None
    return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=untold)
