"""A clock for real PyTorch ranks that other programs cannot disturb: only naps, looks and meetings move it.

Put beside a user's own network and imported by it, in the rank. Reading the clock takes a microsecond, a nap as long as
it says, real work nothing. Ranks that meet at a barrier leave it at the time of the last one, as real clocks would.
"""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LOOK_S = 1e-6
now = [0.0]
_barrier = dist.barrier


def perf_counter():
    """In place of the real one."""
    now[0] += LOOK_S
    return now[0]


def nap(seconds):
    """Let time pass."""
    now[0] += seconds


def several():
    """Whether there are ranks to wait for."""
    return dist.is_initialized() and dist.get_world_size() > 1


def meet(*said, **more):
    """A barrier; the clocks go on from the latest of them."""
    if several():
        _barrier(*said, **more)
        latest = torch.tensor([now[0]], dtype=torch.float64)
        dist.all_reduce(latest, op=dist.ReduceOp.MAX)
        now[0] = max(now[0], float(latest))


class NapBackward(torch.autograd.Function):
    """Nothing forward, a nap backward."""

    @staticmethod
    def forward(context, x, seconds):
        """The same values, in a node of the graph of their own."""
        context.seconds = seconds
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        """The nap."""
        nap(context.seconds)
        return gradient, None


def napping(kind, seconds):
    """A kind of layer that takes time; `seconds` gives it for a number of samples, forward and backward."""

    class Nap(kind):
        def forward(self, x):
            forward, backward = seconds(len(x))
            nap(forward)
            return NapBackward.apply(super().forward(x), backward)

    return Nap


def step_together(net, *said):
    """In place of DDP's own: a step whose collectives DDP runs, where this clock cannot see, begins with a meeting.

    So the time that a rank waits for others is in its next step, and the period of all of them is the slowest rank's.
    """
    if net.require_backward_grad_sync:
        nap(exchange_s[0])
        meet()
    return _forward(net, *said)


exchange_s = [0.0]  # what DDP's collectives are to take
_forward = DistributedDataParallel.forward
time.perf_counter, dist.barrier, DistributedDataParallel.forward = perf_counter, meet, step_together
