"""One layer at a time in TensorFlow: a compiled function under an eager tape, which runs its compiled backward."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import tensorflow as tf

from steplab_worker.adapters._pieces import NOTHING, Pieces
from steplab_worker.adapters.tensorflow.layers import Network
from steplab_worker.graph import Layer


class TensorFlowPieces(Pieces):
    """The layers of a network, each a `tf.function` of its own, run where the strategy puts the one replica."""

    def __init__(self, net: Network, strategy: Any):
        self.local = strategy.experimental_local_results
        self.calls: Dict[str, Any] = {layer.name: call for layer, call in net.calls}
        self.calls[NOTHING.name] = lambda x, training: 2.0 * x
        self.variables = {layer.name: self._variables(net, layer) for layer in net.graph.layers}
        self.variables[NOTHING.name] = []
        self.strategy = strategy
        self.programs: Dict[str, Any] = {}
        self.small = tf.ones([1])
        self.loss: Callable[[Any], Any] = tf.reduce_mean

    def _variables(self, net: Network, layer: Layer) -> List[Any]:
        return [self.local(net.trained[key])[0] for key in layer.weight_keys.values()]

    def forward(self, layer: Layer, inputs: List[Any], wanted: List[bool]) -> Tuple[Any, Any]:
        """Output and tape."""
        chosen = [array for array, want in zip(inputs, wanted) if want]
        with tf.GradientTape() as tape:
            tape.watch(chosen)
            output = self.local(self._program(layer, wanted)(*inputs))[0]
        return output, (tape, output, chosen)

    def backward(self, layer: Layer, kept: Any, gradient: Any) -> List[Any]:
        """Gradients from the tape."""
        tape, output, chosen = kept
        gradients = tape.gradient(output, [chosen, self.variables[layer.name]], output_gradients=gradient)
        return gradients[0]

    def loss_gradient(self, output: Any) -> Any:
        """Eagerly; it is not timed."""
        with tf.GradientTape() as tape:
            tape.watch(output)
            value = self.loss(output)
        return tape.gradient(value, output)

    def add(self, gradient: Any, other: Any) -> Any:
        """One operation."""
        return tf.add(gradient, other)

    def _program(self, layer: Layer, wanted: List[bool]) -> Any:
        if layer.name not in self.programs:
            call, run = self.calls[layer.name], self.strategy.run

            def once(*inputs: Any) -> Any:
                # Its backward would find the slopes of all inputs, of the samples, too.
                return call(*[x if want else tf.stop_gradient(x) for x, want in zip(inputs, wanted)], training=True)

            self.programs[layer.name] = tf.function(lambda *given: run(once, given))
        return self.programs[layer.name]
