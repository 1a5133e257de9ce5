"""MXNet's key-value store: the ranks' side of it, its scheduler and servers, and the optimisers they share."""

from __future__ import annotations

import collections
import math
import os
import socket
import threading
import time
from typing import Any, Callable, Dict, List

import mxnet as mx
from mxnet.kvstore import kvstore_server

from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.rendezvous import Rendezvous
from steplab_worker.transport import host_and_port, joined

POLL_S = 0.05


class Store:
    """One rank's connection to the servers, for as long as the process lives.

    A key of the servers can neither be removed nor change its shape, so keys are named by shape and number and used
    again by the next trial: the servers hold as much as the largest trial needs, not the sum of all.
    """

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        self.asynchronous = group.strategy == "ps-async"
        _enter(group, rendezvous.place.address, _scheduler(rendezvous))
        self.store = mx.kvstore.create("dist_async" if self.asynchronous else "dist_sync")
        self.known: set = set()
        self.keys: List[str] = []

    def begin(self, job: TrialJob, weights: List[mx.nd.NDArray]) -> None:
        """Keys for a trial's arrays; an asynchronous trial's weights and optimiser to the servers."""
        self.keys = _names(weights)
        vars(self.store).pop("pushpull", None)
        for key, array in zip(self.keys, weights):
            if key not in self.known:
                self.store.init(key, array)
                self.known.add(key)
        if self.asynchronous and self.store.rank == 0:
            # The keys may hold an earlier trial's weights; a server can only be told to update, so it updates by
            # assignment first.
            self.store.set_optimizer(Assignment())
            self.swap(weights, [array.copy() for array in weights])
            mx.nd.waitall()
            self.store.set_optimizer(optimizer(job, 1.0))
        self.barrier()

    def swap(self, out: List[mx.nd.NDArray], back: List[mx.nd.NDArray]) -> None:
        """Push arrays and pull what the servers made of them, as Gluon's Trainer does: in one go for each, queued.

        The first layers have the highest priority.
        """
        for number, key in enumerate(self.keys):
            self.store.pushpull(key, out[number], out=back[number], priority=-number)

    def count_pushes(self) -> Callable[[], int]:
        """Begin to count how often MXNet's store is given the first key; the function given tells how often so far."""
        pushed: List[str] = []
        pushpull = self.store.pushpull

        def counted(key: str, value: Any, out: Any = None, priority: int = 0) -> None:
            pushed.append(key)
            pushpull(key, value, out, priority)

        # Hides the store's own method until the next trial begins.
        self.store.pushpull = counted
        return lambda: pushed.count(self.keys[0])

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        mx.nd.waitall()
        self.store._barrier()


def _names(arrays: List[mx.nd.NDArray]) -> List[str]:
    counts: Dict[str, int] = collections.Counter()
    names = []
    for array in arrays:
        shape = "x".join(map(str, array.shape))
        names.append("%s#%d" % (shape, counts[shape]))
        counts[shape] += 1
    return names


class Assignment(mx.optimizer.Optimizer):
    """An update that replaces the weight."""

    def create_state(self, index: int, weight: mx.nd.NDArray) -> None:
        """No state."""
        return

    def update(self, index: int, weight: mx.nd.NDArray, grad: mx.nd.NDArray, state: Any) -> None:
        """The weight becomes what came as its gradient."""
        weight[:] = grad


class Adam(mx.optimizer.Adam):
    """Adam with epsilon beside the corrected root, sqrt(v/(1 − β2^t)) + ε, as its paper and PyTorch have it.

    MXNet's own is lr·sqrt(1 − β2^t)/(1 − β1^t)·m/(sqrt(v) + ε): the same with ε·sqrt(1 − β2^t) in place of ε.
    """

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """One update."""
        steps = self._index_update_count.get(index, self.begin_num_update) + 1
        self.epsilon = 1e-8 * math.sqrt(1.0 - self.beta2**steps)
        super().update(index, weight, grad, state)


def optimizer(job: TrialJob, share: float) -> mx.optimizer.Optimizer:
    """The trial's update rule; gradients are multiplied by `share` first."""
    if job.optimizer == "adam":
        return Adam(learning_rate=job.learning_rate, rescale_grad=share)
    momentum = 0.9 if job.optimizer == "momentum" else 0.0
    return mx.optimizer.SGD(learning_rate=job.learning_rate, momentum=momentum, rescale_grad=share)


def memory(updater: Any, number: int, weight: mx.nd.NDArray) -> List[mx.nd.NDArray]:
    """The arrays in which an updater remembers a weight's gradients; made now if no update made them yet."""
    if number not in updater.states:
        updater.states[number] = updater.optimizer.create_state_multi_precision(number, weight)
        updater.states_synced[number] = True
    held = updater.states[number]
    return [] if held is None else list(held) if isinstance(held, (list, tuple)) else [held]


def set_updates(optimizer: mx.optimizer.Optimizer, weights: int, updates: int) -> None:
    """Let an optimiser believe that it has made that many updates of each weight."""
    optimizer.num_update = updates
    if updates:
        optimizer._index_update_count.update(dict.fromkeys(range(weights), updates))


def serve(group: GroupJob, rendezvous: Rendezvous) -> None:
    """Be the scheduler or a server until the group ends."""
    if group.role == "scheduler":
        port = _free_port(rendezvous.place.address)
        # The others may come when it listens; who comes earlier may miss it.
        threading.Thread(target=_announce, args=(rendezvous, port), daemon=True).start()
        _enter(group, rendezvous.place.address, joined(rendezvous.place.address, port))
    else:
        _enter(group, rendezvous.place.address, _scheduler(rendezvous))
    kvstore_server._init_kvstore_server_module()


def _enter(group: GroupJob, own: str, scheduler: str) -> None:
    """Tell MXNet who and where this process is; it only listens to the environment."""
    host, port = host_and_port(scheduler)
    os.environ.update(DMLC_ROLE={"rank": "worker"}.get(group.role, group.role), DMLC_NODE_HOST=own)
    os.environ.update(DMLC_PS_ROOT_URI=host, DMLC_PS_ROOT_PORT=str(port))
    os.environ.update(DMLC_NUM_WORKER=str(group.workers), DMLC_NUM_SERVER=str(group.roles["server"]))


def _scheduler(rendezvous: Rendezvous) -> str:
    """Where the scheduler listens: no other member offers a port."""
    return next(address for address in rendezvous.meet() if address)


def _free_port(host: str) -> int:
    """A port that is free now. MXNet can be given none that is held; where somebody takes it first, the start fails."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def _announce(rendezvous: Rendezvous, port: int) -> None:
    while not _listens(port):
        time.sleep(POLL_S)
    rendezvous.meet(port)


def _listens(port: int) -> bool:
    """Whether this very process listens on the port."""
    own = {
        os.readlink("/proc/self/fd/" + descriptor) for descriptor in os.listdir("/proc/self/fd") if _is_open(descriptor)
    }
    with open("/proc/self/net/tcp") as file:
        rows = [line.split() for line in file][1:]
    return any(row[1].endswith(":%04X" % port) and row[3] == "0A" and "socket:[%s]" % row[9] in own for row in rows)


def _is_open(descriptor: str) -> bool:
    return os.path.islink("/proc/self/fd/" + descriptor)
