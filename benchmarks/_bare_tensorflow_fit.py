"""Plain Keras: `fit` over an array, of the same network and optimiser that steplab's `loop = fit` hands batches to.

So what differs is how the batches come: sliced from an array by Keras, or read from files and handed over one by one.
"""

import time

import numpy as np
import tf_keras

from steplab_worker.adapters.tensorflow.keras_fit import KerasNetwork, make_optimizer
from steplab_worker.adapters.tensorflow.layers import Network
from steplab_worker.weights import initial_weights


class Ticks(tf_keras.callbacks.Callback):
    """The time at the end of each batch."""

    _supports_tf_logs = True

    def on_train_begin(self, logs=None):
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter())


def make_block(job, session, images):
    """A function of the number of iterations that gives their times."""
    pixels, labels = images
    samples = ((pixels.astype(np.float32) / 255 - 0.5) / 0.25).transpose(0, 2, 3, 1).copy()
    graph, size, ticks = session.graph, job.batch_size, Ticks()
    model = KerasNetwork(Network(graph, initial_weights(graph, job.seed)))
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=make_optimizer(job), loss=loss)

    def block(iterations):
        rows = slice(size * (iterations + 1))  # the first batch only starts the clock
        model.fit(samples[rows], labels[rows].astype(np.int64), batch_size=size, verbose=0, callbacks=[ticks])
        return np.diff(ticks.times).tolist()

    return block
