"""One layer at a time in JAX: `jax.vjp` of the layer in one program, its pull-back in another."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import jax
import jax.numpy as jnp

from steplab_worker.adapters._pieces import NOTHING, Pieces, alike
from steplab_worker.adapters.jax.layers import Arrays, Context, Network
from steplab_worker.graph import Layer


class JaxPieces(Pieces):
    """The layers of a network, each jitted alone; those that are alike share a program."""

    def __init__(self, net: Network, loss: Callable[[Any, Any, Any], Any]):
        self.calls: Dict[str, Any] = dict(net.calls)
        self.calls[NOTHING.name] = lambda own, context, x: 2.0 * x
        self.small = jnp.ones(1)
        self.slope = jax.jit(jax.grad(loss))
        self.programs: Dict[Tuple[Any, ...], Any] = {}
        self.pull = jax.jit(lambda pull_back, gradient: pull_back(gradient))
        self.sum = jax.jit(jnp.add)
        self.weights: Arrays = {}
        self.buffers: Arrays = {}
        self.key: Any = None
        self.samples: Any = None  # of the batch that the loss is of
        self.labels: Any = None

    def forward(self, layer: Layer, inputs: List[Any], wanted: List[bool]) -> Tuple[Any, Any]:
        """Output and pull-back."""
        program = self._program(layer, inputs, wanted)
        own = {name: self.weights[key] for name, key in layer.weight_keys.items()}
        held = {name: self.buffers[layer.name, name] for name in layer.buffers}
        output, pull_back, _ = jax.block_until_ready(program(own, held, self.key, inputs))
        return output, pull_back

    def backward(self, layer: Layer, kept: Any, gradient: Any) -> List[Any]:
        """The pull-back applied."""
        _, gradients = jax.block_until_ready(self.pull(kept, gradient))
        return gradients

    def loss_gradient(self, output: Any) -> Any:
        """From the jitted loss of the batch at hand."""
        return jax.block_until_ready(self.slope(output, self.samples, self.labels))

    def add(self, gradient: Any, other: Any) -> Any:
        """Jitted."""
        return jax.block_until_ready(self.sum(gradient, other))

    def _program(self, layer: Layer, inputs: List[Any], wanted: List[bool]) -> Any:
        what = alike(layer, inputs, wanted)
        if what not in self.programs:
            self.programs[what] = jax.jit(_differentiable(self.calls[layer.name], wanted))
        return self.programs[what]


def _differentiable(call: Any, wanted: List[bool]) -> Any:
    """The layer as a function that also gives its pull-back onto the weights and the wanted inputs."""

    def run(own: Any, held: Any, key: Any, inputs: List[Any]) -> Any:
        def layer(own: Any, chosen: List[Any]) -> Any:
            given, context = iter(chosen), Context(True, key)
            whole = [next(given) if want else array for array, want in zip(inputs, wanted)]
            return call({**own, **held}, context, *whole), list(context.buffers.values())

        return jax.vjp(layer, own, [array for array, want in zip(inputs, wanted) if want], has_aux=True)

    return run
