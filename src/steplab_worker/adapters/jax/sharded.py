"""Sharded training in JAX: every rank keeps its part of each weight and of what the optimiser remembers of it.

S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020, stage 3. Inside
of the step, weights are gathered from the mesh; the gradient of that is a sum that is scattered again. What was
gathered is not kept for backward, which gathers it once more. In parts, all weights are gathered before each pass, and
all gradients scattered after the second: each of these is a program of its own.
"""

from __future__ import annotations

from typing import Any, Callable, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec

from steplab_worker.adapters.jax.layers import KEPT, Arrays
from steplab_worker.adapters.jax.mesh import AXIS, by_rank, globally, locally, over_ranks
from steplab_worker.adapters.jax.step import Step
from steplab_worker.graph import size

# What only moves or rounds numbers is done again in backward: a weight that was gathered has passed through it.
MOVING = ("all_gather", "slice", "reshape", "transpose", "squeeze", "convert_element_type")


def part_of(array: Any, rank: int, ranks: int) -> np.ndarray:
    """A rank's part of an array: the flat array in equal parts, the last one filled up with zeros.

    >>> part_of(np.arange(5), 1, 2)
    array([3, 4, 0])
    """
    flat = np.asarray(array).reshape(-1)
    length = -(-flat.size // ranks)
    part = np.zeros(length, flat.dtype)
    mine = flat[rank * length : (rank + 1) * length]
    part[: mine.size] = mine
    return part


class Shards:
    """The weights of a step and the optimiser's moments of them, in parts over the ranks."""

    def __init__(self, step: Step, mesh: Any, rank: int, weights: Arrays):
        self.step, self.mesh, self.rank = step, mesh, rank
        self.shapes = {key: tuple(weight.shape) for key, weight in weights.items()}
        self.together = jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, Spec()))
        same, mine = Spec(), Spec(AXIS)
        # The counter of Adam comes first, and is no array of weights.
        remembered = tuple(mine if isinstance(moment, dict) else same for moment in step.moments({}))
        self.kept = (mine, remembered)  # where weights and moments are
        self.gather = jax.jit(over_ranks(mesh, self._gathered, (mine,), same))
        self.scatter = jax.jit(over_ranks(mesh, self._scattered, (mine,), mine))
        self.update = jax.jit(over_ranks(mesh, step.update, (*self.kept, mine), self.kept), donate_argnums=(0, 1))

    def spread(self, trained: Arrays, moments: Any) -> Tuple[Arrays, Any]:
        """Local arrays as global ones, of which this rank keeps its part; Adam's counter is the same on all."""
        return self._parts(trained), tuple(
            self._parts(moment) if isinstance(moment, dict) else globally(self.mesh, moment) for moment in moments
        )

    def _parts(self, arrays: Arrays) -> Arrays:
        device = jax.local_devices()[0]
        mine = {key: part_of(array, self.rank, self.mesh.size) for key, array in arrays.items()}
        return by_rank(self.mesh, {key: jax.device_put(part, device) for key, part in mine.items()}, stack=False)

    def collected(self, trained: Arrays, moments: Any) -> Tuple[Arrays, Any]:
        """The same as whole arrays; all ranks must ask for it."""
        return self._wholes(trained), tuple(
            self._wholes(moment) if isinstance(moment, dict) else np.asarray(locally(self.mesh, moment))
            for moment in moments
        )

    def _wholes(self, parts: Arrays) -> Arrays:
        flat = locally(self.mesh, self.together(parts))
        return {key: np.array(array)[: size(self.shapes[key])].reshape(self.shapes[key]) for key, array in flat.items()}

    def program(self, laid_out: Callable[[Any], Any]) -> Any:
        """One whole iteration over all ranks: loss, weights, moments, and what is the rank's own."""
        # One that keeps what may be would keep it of recomputed blocks, too.
        policy = jax.checkpoint_policies.save_only_these_names(KEPT) if self.step.net.recompute else _kept

        def run(trained: Any, moments: Any, own: Any, batch: Any, number: Any) -> Any:
            buffers, sums = jax.tree.map(lambda array: array[0], own)
            key = self.step.key(number, jax.lax.axis_index(AXIS))

            def loss(parts: Arrays) -> Any:
                return self.step.loss(self._gathered(parts), buffers, laid_out(batch), key)

            gradient = jax.value_and_grad(jax.checkpoint(loss, policy=policy), has_aux=True)
            (value, buffers_after), gradients = gradient(trained)
            mean = jax.tree.map(lambda total: total / self.mesh.size, gradients)
            trained, moments = self.step.update(trained, moments, mean)
            return value[None], trained, moments, jax.tree.map(lambda array: array[None], (buffers_after, sums))

        mine = Spec(AXIS)
        over = over_ranks(self.mesh, run, (*self.kept, mine, mine, Spec()), (mine, *self.kept, mine))
        return jax.jit(over, donate_argnums=(0, 1, 2))

    def _gathered(self, parts: Arrays) -> Arrays:
        """Whole weights; the gradient of a gathered array is the sum over the ranks, a part for each."""
        flat = {key: jax.lax.all_gather(part, AXIS, tiled=True) for key, part in parts.items()}
        return {key: array[: size(self.shapes[key])].reshape(self.shapes[key]) for key, array in flat.items()}

    def _scattered(self, gradients: Arrays) -> Arrays:
        """This rank's part of the mean of whole gradients."""
        flat = {key: gradient.reshape(-1) for key, gradient in gradients.items()}
        return {key: self._part_of_mean(array) for key, array in flat.items()}

    def _part_of_mean(self, array: Any) -> Any:
        whole = jnp.pad(array, (0, -array.size % self.mesh.size))
        return jax.lax.psum_scatter(whole, AXIS, tiled=True) / self.mesh.size


def _kept(primitive: Any, *_: Any, **__: Any) -> bool:
    """Whether what an operation gives may be kept for backward."""
    return primitive.name not in MOVING
