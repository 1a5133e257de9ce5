"""JAX: the whole step in one jitted program, `jax.distributed` with one process a rank, gloo collectives on CPUs.

Native mode runs one program per batch: loss, gradients, their mean over the ranks (`psum` under `shard_map`) and the
update, with its buffers donated. Phased mode compiles the same step in parts, each of which blocks until it is done:
the forward program returns the residuals of `jax.vjp`, the backward program takes them. Arrays are channels last, for
XLA's CPU convolutions want that; `load` transposes, so that is in t_h2d.
"""

from __future__ import annotations

import contextlib
import os
import socket
from functools import partial
from typing import Any, Callable, Dict, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec

from steplab_worker import adapter as base
from steplab_worker.adapters import _channels_last as last_
from steplab_worker.adapters._pieces import LayerWalk, TooLong
from steplab_worker.adapters.jax.layers import Arrays
from steplab_worker.adapters.jax.mesh import AXIS, by_rank, first_of, globally, locally, of_rank, over_ranks
from steplab_worker.adapters.jax.pieces import JaxPieces
from steplab_worker.adapters.jax.sharded import Shards
from steplab_worker.adapters.jax.step import Step
from steplab_worker.graph import Graph
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.rendezvous import Rendezvous
from steplab_worker.weights import Key

DECLARATION = {
    "title": "JAX",
    "pins": ["jax==0.10.2", "jaxlib==0.10.2", "numpy>=2,<3", "pillow>=11,<14", "nibabel>=5.3,<6"],
    "module": "jax",
    "doors": "rank 0's coordinator on 127.0.0.1, each rank's gloo on the address that the host's name stands for",
    "kinds": ["step", "train", "infer"],
    "strategies": ["sync", "accumulate", "sharded"],
    "layers": "all",
    # One operation after backward, whose arrays go one after the other.
    "exchange": {"by": "XLA over gloo, on GPUs NCCL", "grouping": "arrays"},
    "precisions": ["float32", "bfloat16"],
    "recomputes": True,
    "factors": {},
    "unsupported": [
        {
            "when": {"kind": "train", "strategy": "sharded"},
            "because": "one rank alone looks at the accuracy, and it has only its part of the parameters",
        }
    ],
}
START_DEADLINE_S = 120


class Session(base.Session):
    """One trial in JAX.

    `trained` and `moments` are the same on all ranks; `own` (buffers and summed gradients) differs from rank to rank.
    In native mode with several ranks these are global arrays, `own` with a leading axis of ranks; else local ones.
    """

    def __init__(self, job: TrialJob, graph: Graph, weights: Dict[Key, np.ndarray], group: GroupJob, mesh: Any):
        self.job, self.graph, self.group, self.mesh = job, graph, group, mesh
        self.step_of = Step(job, graph)
        trained = last_.all_inward(graph, last_.weight_keys(graph), weights)
        sharded = job.strategy == "sharded" and mesh is not None and job.learns
        self.shards = Shards(self.step_of, mesh, group.rank, trained) if sharded else None
        self.exchanges_within = sharded
        self.programs = _Programs(self.step_of, mesh, self.shards)
        buffers = last_.all_inward(graph, last_.buffer_keys(graph), weights)
        sums = jax.tree.map(np.zeros_like, trained) if job.accumulate > 1 else {}
        start = jax.tree.map(_on_device, (trained, self.step_of.moments(trained), (buffers, sums)))
        self.trained, self.moments, self.own = start
        self.batch: Any = None
        self.value: Any = None
        self.pull_back: Any = None
        self.local: Arrays = {}  # gradients of phased mode
        self.done = 0
        self.counted: Optional[int] = None
        self.shared = False  # whether all of it is in global arrays, for native steps over several ranks
        self.spread = False  # whether weights and moments are
        self.inside = base.Within()
        self.layer_method = "pieces"
        if sharded or job.recompute:
            self.layer_method = "none: %s" % ("all weights are gathered" if sharded else "blocks are recomputed whole")
        self.pieces: Any = None
        self.walk: Optional[LayerWalk] = None
        # A sharded step without its collectives is another program in more than these.
        self.overlap_method = "difference" if mesh is not None and job.learns and not sharded else "none"

    def enter(self, mode: str) -> None:
        """Global arrays for native steps over several ranks, local ones otherwise; weights in parts stay in parts."""
        over = self.mesh is not None and self.job.learns
        shared = over and mode in ("native", "overlap")
        spread = shared or (mode == "phased" and self.shards is not None)
        if spread != self.spread:
            self.trained, self.moments = self._globally() if spread else self._whole()
            self.spread = spread
        if shared != self.shared:
            self.own = (by_rank if shared else of_rank)(self.mesh, self.own)
            self.shared = shared

    def _globally(self) -> Tuple[Any, Any]:
        """Local weights and moments as global arrays: the same on all ranks, or a part on each."""
        if self.shards is not None:
            return self.shards.spread(self.trained, self.moments)
        return globally(self.mesh, (self.trained, self.moments))

    def _whole(self) -> Tuple[Any, Any]:
        """Global weights and moments as local arrays; those in parts only if all ranks ask."""
        if self.shards is not None:
            return jax.tree.map(_on_device, self.shards.collected(self.trained, self.moments))
        return locally(self.mesh, (self.trained, self.moments))

    def source(self) -> base.Source:
        """Batches from the data set's files."""
        return base.FileSource(self.job, self.group.rank, self.group.workers)

    def synchronize(self) -> None:
        """Wait for all that was dispatched."""
        jax.block_until_ready((self.value, self.trained, self.own, self.local, self.batch))

    def step(self, batch: Any, last: bool) -> None:
        """One iteration in one program."""
        self._step(batch, self.programs.native(self.shared, last))

    def step_alone(self, batch: Any, last: bool) -> None:
        """The same program without the mean over the ranks; their weights part."""
        self._step(batch, self.programs.native(self.shared, last, exchange=False))

    def _step(self, batch: Any, program: Any) -> None:
        """The program lays the batch out itself, as users write it: a program of its own would be dispatched for it."""
        samples, labels = batch
        self.batch = samples, labels.astype(np.int32)
        given = by_rank(self.mesh, jax.tree.map(_on_device, self.batch), stack=False) if self.shared else self.batch
        arguments = (self.trained, self.moments, self.own, given, self._number())
        if self.counted is not None:
            self.counted += int("all-reduce" in program.lower(*arguments).compile().as_text())
        self.value, self.trained, self.moments, self.own = program(*arguments)

    def _number(self) -> np.ndarray:
        """The number of this iteration, from which random keys are made."""
        self.done += 1
        return np.uint32(self.done)

    def load(self, batch: Any) -> None:
        """Host to device, channels last."""
        samples, labels = batch
        self.batch = self.programs.laid_out(samples), jnp.asarray(labels.astype(np.int32))

    def forward(self) -> None:
        """Loss and residuals; weights in parts are gathered first."""
        buffers, sums = self.own
        trained = self.trained if self.shards is None else self._gathered()
        results = self.programs.forward(trained, buffers, self.batch, self._number())
        self.value, self.pull_back, buffers = results
        self.own = (buffers, sums)

    def backward(self) -> None:
        """Gradients from the residuals; those of an accumulation are added up, those of parts of weights scattered."""
        if self.shards is not None:
            self._gathered()  # what was gathered for forward would not have been kept
        gradients = self.programs.backward(self.pull_back)
        self.pull_back = None
        self.local = self.programs.add(self.local, gradients) if self.local else gradients
        if self.shards is not None:
            self.local = self._together(self.shards.scatter, by_rank(self.mesh, self.local, stack=False))

    def _gathered(self) -> Arrays:
        """Whole weights from the parts of all ranks."""
        return locally(self.mesh, self._together(self.shards.gather, self.trained))

    def _together(self, collective: Callable[[Any], Any], arrays: Any) -> Any:
        """Run a collective that all ranks begin together, and note what it took."""
        jax.block_until_ready(arrays)
        start = self.clock()
        self.meet()
        met = self.clock()
        moved = jax.block_until_ready(collective(arrays))
        before = self.inside
        waited, moving = before.waited + met - start, before.moving + self.clock() - met
        self.inside = base.Within(waited, moving, before.meetings + 1)
        return moved

    def within(self) -> base.Within:
        """From gathering and scattering."""
        within, self.inside = self.inside, base.Within()
        return within

    def meet(self) -> None:
        """A sum of one number over the ranks."""
        if self.mesh is not None:
            jax.block_until_ready(self.programs.average(self.programs.unit))

    def exchange(self) -> None:
        """Average the gradients over the ranks."""
        if self.mesh is not None:
            self.local = locally(self.mesh, self.programs.average(by_rank(self.mesh, self.local, stack=False)))

    def update(self) -> None:
        """The optimiser's step."""
        update = self.programs.update if self.shards is None else self.shards.update
        self.trained, self.moments = update(self.trained, self.moments, self.local)
        self.local = {}

    def layer_times(self, batch: Any) -> Optional[Dict[str, Dict[str, float]]]:
        """Seconds per layer, each compiled alone; None if that takes too long, or the method says why not."""
        if self.layer_method != "pieces":
            return None
        self.load(batch)
        samples, labels = self.batch
        if self.walk is None:
            self.pieces = JaxPieces(self.step_of.net, self.step_of.loss_of)
            self.walk = LayerWalk(self.graph, self.pieces)
        pieces = self.pieces
        pieces.samples, pieces.labels = samples, labels
        pieces.weights, pieces.buffers, pieces.key = self.trained, self.own[0], self.step_of.key(self._number())
        try:
            return self.walk.times(samples)
        except TooLong as reason:
            self.layer_method = "none: %s" % reason
            return None

    def infer(self) -> None:
        """The forward program of inference."""
        self.value = self.programs.infer(self.trained, self.own[0], self.batch[0])

    def loss(self) -> float:
        """The last batch's loss on this rank (of an inference: the mean of its outputs)."""
        value = of_rank(self.mesh, self.value) if self.shared else self.value
        return float(np.mean(np.asarray(value))) * (self.job.accumulate if self.job.learns else 1)

    def outputs(self) -> np.ndarray:
        """What the last inference gave."""
        return np.asarray(self.value)

    def kernels(self) -> Dict[str, str]:
        """`jax.nn.dot_product_attention` is products and a softmax, unless a GPU has a kernel for it."""
        if not self.graph.has_attention:
            return {}
        sequences = any(layer.kind == "self_attention" for layer in self.graph.layers)
        return {"attention": "plain: jax.nn.dot_product_attention" if sequences else "plain"}

    def gradients(self) -> Dict[Key, np.ndarray]:
        """The gradients of this rank."""
        return last_.all_outward(self.graph, jax.tree.map(np.array, self.local))

    def parameters(self) -> Dict[Key, np.ndarray]:
        """The weights as arrays."""
        local = self._whole()[0] if self.spread else self.trained
        return last_.all_outward(self.graph, jax.tree.map(np.array, local))

    def predictor(self) -> Callable[[np.ndarray], np.ndarray]:
        """The forward program of inference on this rank's arrays."""
        trained, _, buffers = self._held()

        def predict(samples: np.ndarray) -> np.ndarray:
            return np.asarray(self.programs.infer(trained, buffers, self.programs.laid_out(samples)))

        return predict

    def _held(self) -> Tuple[Any, Any, Any]:
        """Weights, moments and buffers as local arrays."""
        trained, moments, (buffers, _) = self.trained, self.moments, self.own
        if self.spread:
            trained, moments = self._whole()
        if self.shared:
            buffers = of_rank(self.mesh, buffers)
        return trained, moments, buffers

    def state(self) -> Dict[str, np.ndarray]:
        """The leaves of weights, moments and buffers, and the number of iterations, from which random keys are made."""
        leaves = {"leaf/%d" % at: np.array(leaf) for at, leaf in enumerate(jax.tree.leaves(self._held()))}
        return dict(leaves, done=np.array(self.done))

    def restore(self, state: Dict[str, np.ndarray]) -> None:
        """Into arrays of the same structure."""
        mode = "native" if self.shared else "local"
        self.enter("local")
        tree = jax.tree.structure(self._held())
        leaves = [_on_device(state["leaf/%d" % at]) for at in range(tree.num_leaves)]
        self.trained, self.moments, buffers = jax.tree.unflatten(tree, leaves)
        self.own, self.done = (buffers, self.own[1]), int(state["done"])
        self.enter(mode)

    def count_exchanges(self) -> Callable[[], int]:
        """Count the programs run whose compiled form holds an all-reduce."""
        self.counted = 0
        return lambda: int(self.counted or 0)

    def close(self) -> None:
        """Forget arrays and programs, so that trial after trial takes no more memory."""
        self.__dict__.clear()
        jax.clear_caches()


class _Programs:
    """The compiled programs of one trial."""

    def __init__(self, step: Step, mesh: Any, shards: Optional[Shards] = None):
        self.step, self.mesh, self.shards = step, mesh, shards
        self.compiled: Dict[Tuple[bool, bool, bool], Any] = {}
        self.forward = jax.jit(self._forward)
        self.backward = jax.jit(lambda pull_back: pull_back(jnp.ones(()))[0])
        self.update = jax.jit(step.update, donate_argnums=(0, 1))
        self.add = jax.jit(partial(jax.tree.map, jnp.add), donate_argnums=0)
        self.infer = jax.jit(lambda trained, buffers, x: step.net(trained, buffers, x, None, training=False)[0])
        axes = last_.last_axes(len(step.graph.input_shape) + 1)
        self.laid_out = jax.jit(lambda samples: jnp.transpose(samples, axes))
        if mesh is not None:
            self.average = jax.jit(over_ranks(mesh, _mean, (Spec(AXIS),), Spec()))
            self.unit = by_rank(mesh, _on_device(np.ones(1, np.float32)), stack=False)

    def _laid_out(self, batch: Any) -> Any:
        samples, labels = batch
        return self.laid_out(samples), labels

    def _forward(self, trained: Arrays, buffers: Arrays, batch: Any, number: Any) -> Any:
        def loss(trained: Arrays) -> Any:
            return self.step.loss(trained, buffers, batch, self.step.key(number))

        return jax.vjp(loss, trained, has_aux=True)

    def native(self, shared: bool, last: bool, exchange: bool = True) -> Any:
        """The program of a whole iteration, over all ranks or for this one alone, with or without the exchange."""
        if (shared, last, exchange) not in self.compiled:
            self.compiled[shared, last, exchange] = self._compiled(shared, last, exchange)
        return self.compiled[shared, last, exchange]

    def _compiled(self, shared: bool, last: bool, exchange: bool) -> Any:
        if not shared:
            return self._alone(last)
        if self.shards is not None:
            return self.shards.program(self._laid_out)
        return self._shared(last, _mean if exchange else _unchanged)

    def _alone(self, last: bool) -> Any:
        def run(trained: Any, moments: Any, own: Any, batch: Any, number: Any) -> Any:
            return self.step.train(_unchanged, last, 0, (trained, moments, own), self._laid_out(batch), number)

        return jax.jit(run, donate_argnums=(0, 1, 2))

    def _shared(self, last: bool, average: Any) -> Any:
        def run(trained: Any, moments: Any, own: Any, batch: Any, number: Any) -> Any:
            own = jax.tree.map(lambda array: array[0], own)
            rank = jax.lax.axis_index(AXIS)
            state = (trained, moments, own)
            value, trained, moments, own = self.step.train(average, last, rank, state, self._laid_out(batch), number)
            return value[None], trained, moments, jax.tree.map(lambda array: array[None], own)

        same, mine = Spec(), Spec(AXIS)
        over = over_ranks(self.mesh, run, (same, same, mine, mine, same), (mine, same, same, mine))
        return jax.jit(over, donate_argnums=(0, 1, 2))


def _on_device(array: np.ndarray) -> Any:
    """A copy on the device that may be donated; nothing is compiled for it."""
    return jax.device_put(array, jax.local_devices()[0], may_alias=False)


def _unchanged(gradients: Any) -> Any:
    return gradients


def _mean(gradients: Any) -> Any:
    return jax.lax.pmean(gradients, AXIS)


class Adapter(base.Adapter):
    """JAX in one rank."""

    phase_method = "separate-compilation"

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        super().__init__(group, rendezvous)
        # XLA's CPU client sizes its thread pools by these, when it is made.
        os.environ["PJRT_NPROC"] = os.environ["NPROC"] = str(group.threads)
        self.holder: Optional[socket.socket] = None
        self.mesh: Any = None
        if group.workers > 1:
            (coordinator, *_), self.holder = rendezvous.addresses()
            jax.distributed.initialize(
                coordinator, group.workers, group.rank, initialization_timeout=START_DEADLINE_S,
                coordinator_bind_address=coordinator,
            )  # fmt: skip
            self.mesh = Mesh(np.array([first_of(rank) for rank in range(group.workers)]), (AXIS,))
        self.expect_device(jax.local_devices()[0].platform == "gpu")

    def versions(self) -> Dict[str, str]:
        """JAX, XLA's library, and the device."""
        device = jax.local_devices()[0].device_kind
        return dict(super().versions(), jax=jax.__version__, jaxlib=jax.lib.__version__, device=device)

    def session(self, job: TrialJob, graph: Graph, weights: Dict[Key, np.ndarray]) -> Session:
        """Build the step's functions; they are compiled when they first run."""
        return Session(job, graph, weights, self.group, self.mesh)

    def close(self) -> None:
        """Leave the group of processes."""
        if self.mesh is not None:
            with contextlib.suppress(RuntimeError):
                jax.distributed.shutdown()
