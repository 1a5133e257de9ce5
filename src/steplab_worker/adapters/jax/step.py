"""The step in JAX as pure functions: loss, gradients, update."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from steplab_worker.adapters.jax.layers import Arrays, Network, flat
from steplab_worker.graph import UNTOLD, Graph
from steplab_worker.job import TrialJob


class Step:
    """The step as pure functions."""

    def __init__(self, job: TrialJob, graph: Graph):
        self.job, self.graph, self.net = job, graph, Network(graph, job.precision, job.recompute)

    def key(self, number: Any, rank: Any = 0) -> Any:
        """The random key of an iteration on a rank."""
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.job.seed), number), rank)

    def loss(self, trained: Arrays, buffers: Arrays, batch: Any, key: Any) -> Any:
        """The loss, scaled for accumulation, and the new buffers."""
        samples, labels = batch
        output, buffers = self.net(trained, buffers, samples, key, training=True)
        return self.loss_of(output, samples, labels), buffers

    def loss_of(self, output: Any, samples: Any, labels: Any) -> Any:
        """The loss of an output, scaled for accumulation."""
        output = output.astype(jnp.float32)
        if self.graph.loss == "reconstruction":
            value = jnp.mean(jnp.square(output - flat(samples, self.graph.input_shape)))
        elif self.graph.loss == "masked-token":
            told = labels != UNTOLD
            value = jnp.sum(jnp.where(told, _surprise(output, jnp.where(told, labels, 0)), 0.0)) / jnp.sum(told)
        else:
            value = jnp.mean(_surprise(output, labels))
        return self.job.share(value)

    def moments(self, trained: Arrays) -> Any:
        """What the optimiser remembers, at its start: running means of the gradients; Adam also counts the updates."""
        means = {"sgd": 0, "momentum": 1, "adam": 2}[self.job.optimizer]
        count = (np.zeros((), np.float32),) if self.job.optimizer == "adam" else ()
        return (*count, *(jax.tree.map(np.zeros_like, trained) for _ in range(means)))

    def update(self, trained: Arrays, moments: Any, gradients: Arrays) -> Any:
        """PyTorch's rules: momentum 0.9 without dampening; Adam with epsilon after the bias correction."""
        rate, steps = self.job.learning_rate, gradients
        if self.job.optimizer == "adam":
            moments, steps = _adam(*moments, gradients)
        elif self.job.optimizer == "momentum":
            steps = jax.tree.map(lambda mean, gradient: 0.9 * mean + gradient, moments[0], gradients)
            moments = (steps,)
        return jax.tree.map(lambda weight, step: weight - rate * step, trained, steps), moments

    def train(self, average: Any, last: bool, rank: Any, state: Any, batch: Any, number: Any) -> Any:
        """One whole iteration: loss, weights, moments, and what is the rank's own."""
        trained, moments, (buffers, sums) = state
        loss = jax.value_and_grad(self.loss, has_aux=True)
        (value, buffers), gradients = loss(trained, buffers, batch, self.key(number, rank))
        if sums:
            gradients = jax.tree.map(jnp.add, sums, gradients)
        if not last:
            return value, trained, moments, (buffers, gradients)
        trained, moments = self.update(trained, moments, average(gradients))
        return value, trained, moments, (buffers, jax.tree.map(jnp.zeros_like, sums))


def _surprise(output: Any, labels: Any) -> Any:
    """−log softmax(output)[label] for each label."""
    return -jnp.take_along_axis(jax.nn.log_softmax(output), labels[..., None], -1)[..., 0]


def _adam(updates: Any, first: Arrays, second: Arrays, gradients: Arrays) -> Any:
    """The moments and the steps of D. P. Kingma, J. Ba, "Adam", ICLR 2015, algorithm 1."""
    updates = updates + 1
    first = jax.tree.map(lambda mean, g: 0.9 * mean + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda mean, g: 0.999 * mean + 0.001 * g * g, second, gradients)
    bias1, bias2 = 1 - 0.9**updates, 1 - 0.999**updates
    steps = jax.tree.map(lambda m, v: (m / bias1) / (jnp.sqrt(v / bias2) + 1e-8), first, second)
    return (updates, first, second), steps
