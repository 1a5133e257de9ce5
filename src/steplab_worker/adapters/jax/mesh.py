"""Arrays of one rank and of all ranks in JAX: into global arrays on a mesh, and back."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec

AXIS = "workers"


def globally(mesh: Any, tree: Any) -> Any:
    """Arrays that are the same on all ranks, as global arrays."""
    place = NamedSharding(mesh, Spec())
    return jax.tree.map(lambda array: jax.make_array_from_single_device_arrays(array.shape, place, [array]), tree)


def by_rank(mesh: Any, tree: Any, stack: bool = True) -> Any:
    """Arrays of this rank as part of global ones: under a new leading axis, or along their first."""
    place, ranks = NamedSharding(mesh, Spec(AXIS)), mesh.size

    def one_of(array: Any) -> Any:
        part = array[None] if stack else array
        shape = (part.shape[0] * ranks, *part.shape[1:])
        return jax.make_array_from_single_device_arrays(shape, place, [part])

    return jax.tree.map(one_of, tree)


def locally(mesh: Any, tree: Any) -> Any:
    """This rank's copy of global arrays."""
    return jax.tree.map(lambda array: array.addressable_data(0), tree)


def of_rank(mesh: Any, tree: Any) -> Any:
    """This rank's part of global arrays with a leading axis of ranks."""
    return jax.tree.map(lambda array: array.addressable_data(0)[0], tree)


def over_ranks(mesh: Any, function: Any, inward: Any, outward: Any) -> Any:
    """A function that each rank runs on its parts of global arrays."""
    # Gradients inside are those of this rank; the check would sum them over the ranks by itself.
    return jax.shard_map(function, mesh=mesh, in_specs=inward, out_specs=outward, check_vma=False)


def first_of(rank: int) -> Any:
    """A rank's first device."""
    return next(device for device in jax.devices() if device.process_index == rank)
