"""The functions that TensorFlow compiles for a trial: a whole step, and its parts."""

from __future__ import annotations

from typing import Any, Callable, List

import tensorflow as tf

from steplab_worker.adapters.tensorflow.layers import Network, flat
from steplab_worker.adapters.tensorflow.place import Place
from steplab_worker.graph import UNTOLD
from steplab_worker.job import TrialJob

COLLECTIVES = ("CollectiveReduce", "NcclAllReduce")


class Programs:
    """The compiled functions of one trial; each runs on every replica of this process.

    Where gradients of an accumulation are added up, `sums` has a variable for each of the network's.
    """

    def __init__(self, job: TrialJob, net: Network, optimizer: Any, place: Place):
        self.net, self.optimizer, self.share = net, optimizer, job.share
        self.variables = list(net.trained.values())
        self.sums = [_sum_of(variable) for variable in self.variables] if job.accumulate > 1 else []
        self.spread = place.workers > 1

        def compiled(function: Callable[..., Any]) -> Any:
            return tf.function(lambda *arguments: place.strategy.run(function, arguments))

        self.whole, self.part = compiled(lambda *batch: self._whole(self.spread, *batch)), compiled(self._part)
        self.alone = compiled(lambda *batch: self._whole(False, *batch))
        self.forward, self.infer = compiled(self._forward), compiled(lambda samples: self.net.run(samples, False))
        self.average, self.update, self.barrier = compiled(self._average), compiled(self._update), compiled(_barrier)
        self.add = tf.function(lambda sums, other: tf.nest.map_structure(tf.add, sums, other))

    def _loss(self, samples: Any, labels: Any) -> Any:
        return self.loss_of(self.net.run(samples, True), samples, labels)

    def _forward(self, samples: Any, labels: Any) -> Any:
        """The loss. The backward of a compiled function finds the slopes of all its arguments; samples need none."""
        return self._loss(tf.stop_gradient(samples), labels)

    def loss_of(self, output: Any, samples: Any, labels: Any) -> Any:
        """The mean loss of a batch's output, scaled for accumulation."""
        graph, output = self.net.graph, tf.cast(output, tf.float32)
        if graph.loss == "reconstruction":
            each = tf.math.squared_difference(output, flat(samples, graph.input_shape))
        elif graph.loss == "masked-token":
            told = labels != UNTOLD
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[told], output[told])
        else:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, output)
        mean = tf.reduce_mean(each)
        return self.share(mean)

    def _gradients(self, samples: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            value = self._loss(samples, labels)
        return value, whole_arrays(tape.gradient(value, self.variables))

    def _part(self, samples: Any, labels: Any) -> Any:
        """A batch of an accumulation before the last."""
        value, gradients = self._gradients(samples, labels)
        for total, gradient in zip(self.sums, gradients):
            total.assign_add(gradient)
        return value

    def _whole(self, exchange: bool, samples: Any, labels: Any) -> Any:
        """A batch, the exchange (or not) and the update."""
        value, gradients = self._gradients(samples, labels)
        if self.sums:
            gradients = [total + gradient for total, gradient in zip(self.sums, gradients)]
        self._update(self._average(gradients) if exchange else gradients)
        for total in self.sums:
            total.assign(tf.zeros_like(total))
        return value

    def _average(self, gradients: Any) -> Any:
        # A gradient that is an argument of the function has no device yet; all_reduce asks where it is.
        placed = [tf.identity(gradient) for gradient in gradients]
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, placed)

    def _update(self, gradients: Any) -> None:
        self.optimizer.apply_gradients(zip(gradients, self.variables), skip_gradients_aggregation=True)


def whole_arrays(gradients: Any) -> List[Any]:
    """Gradients that are exchanged and added up like all others; that of an embedding may be some of its rows."""
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


def _barrier() -> Any:
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.constant(1.0))


def _sum_of(variable: Any) -> Any:
    """Where a replica adds up gradients of a variable."""
    on_read, added = tf.VariableSynchronization.ON_READ, tf.VariableAggregation.SUM
    return tf.Variable(tf.zeros(variable.shape), trainable=False, synchronization=on_read, aggregation=added)


def exchanges(function: Any) -> int:
    """1 if the compiled function holds a collective operation, else 0."""
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]
    return int(any(node.op.startswith(COLLECTIVES) for node in nodes))
